#include "holdfast/testing/stub_cuda/calls.h"

// Results and their names.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

struct Text {
  CUresult result;
  const char* name;
  const char* text;
};

#define HOLDFAST_STUB_TEXT(name, text) \
  { name, #name, text }
constexpr Text kTexts[] = {
    HOLDFAST_STUB_TEXT(CUDA_SUCCESS, "no error"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_VALUE, "an argument is invalid"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "there is not enough memory"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialized"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NO_DEVICE, "there is no device"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_DEVICE, "there is no such device"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_IMAGE, "the image is invalid"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_CONTEXT, "the context is invalid"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_ECC_UNCORRECTABLE, "memory has an uncorrectable error"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_PTX, "the PTX does not compile"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NVLINK_UNCORRECTABLE, "NVLink has an uncorrectable error"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_CONTAINED, "an error ended the context"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_OPERATING_SYSTEM, "a call of the operating system failed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_HANDLE, "the handle is invalid"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NOT_FOUND, "the name was not found"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NOT_READY, "the work is not done"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel touched an illegal address"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the launch needs too much"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel took too long"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_ASSERT, "a kernel's assertion failed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the memory is registered"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_HARDWARE_STACK_ERROR, "the hardware's stack failed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel touched a misaligned address"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel mixed address spaces"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_PC, "a kernel lost its way"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the grid does not fit at once"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NOT_PERMITTED, "the operation is not permitted"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_NOT_SUPPORTED, "the operation is not supported"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_EXTERNAL_DEVICE, "another device failed"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the cluster's size is invalid"),
    HOLDFAST_STUB_TEXT(CUDA_ERROR_UNKNOWN, "the error is unknown"),
};
#undef HOLDFAST_STUB_TEXT

CUresult look_up(CUresult result, const char** text, const char* Text::*which) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = nullptr;
  for (const Text& known : kTexts) {
    if (known.result == result) *text = known.*which;
  }
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** text) {
  return look_up(error, text, &Text::name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return look_up(error, text, &Text::text);
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
