#include "holdfast/testing/stub_cuda/transfer.h"

#include <atomic>
#include <cstring>

#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/memory.h"
#include "holdfast/testing/stub_cuda/stream.h"

// Copies and fills.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

size_t Copy::to_bytes() const { return (depth - 1) * to_slice + (height - 1) * to_pitch + width; }
size_t Copy::from_bytes() const {
  return (depth - 1) * from_slice + (height - 1) * from_pitch + width;
}
size_t Fill::bytes() const { return (height - 1) * pitch + width * element; }

CUresult check(const Copy& copy) {
  const bool is_empty = copy.width == 0 || copy.height == 0 || copy.depth == 0;
  const bool overlaps =
      (copy.height > 1 && (copy.to_pitch < copy.width || copy.from_pitch < copy.width)) ||
      (copy.depth > 1 && (copy.to_slice < copy.to_pitch * copy.height ||
                          copy.from_slice < copy.from_pitch * copy.height));
  return is_empty || overlaps ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult check(const Fill& fill) {
  const bool known = fill.element == 1 || fill.element == 2 || fill.element == 4;
  if (!known || fill.width == 0 || fill.height == 0 || fill.to % fill.element != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool fits = fill.element == 4 || fill.value >> (8 * fill.element) == 0;
  const bool overlaps = fill.height > 1 && fill.pitch < fill.width * fill.element;
  return !fits || overlaps ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult use_by(State& state, Operation& operation, const Copy& copy, bool* pageable) {
  if (const CUresult result = use(state, operation, copy.to, copy.to_bytes(), pageable)) {
    return result;
  }
  if (const CUresult result = use(state, operation, copy.from, copy.from_bytes(), pageable)) {
    return result;
  }
  if (copy.to < copy.from + copy.from_bytes() && copy.from < copy.to + copy.to_bytes()) {
    violation(state, "'{}' copies to bytes that it copies from", operation.what);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult use_by(State& state, Operation& operation, const Fill& fill) {
  return use(state, operation, fill.to, fill.bytes());
}

void run(const Copy& copy) {
  for (size_t z = 0; z < copy.depth; ++z) {
    for (size_t y = 0; y < copy.height; ++y) {
      std::memcpy(pointer_of<void>(copy.to + z * copy.to_slice + y * copy.to_pitch),
                  pointer_of<const void>(copy.from + z * copy.from_slice + y * copy.from_pitch),
                  copy.width);
    }
  }
}

void run(const Fill& fill) {
  for (size_t y = 0; y < fill.height; ++y) {
    auto* const row = pointer_of<std::byte>(fill.to + y * fill.pitch);
    if (fill.element == 1) {
      std::memset(row, static_cast<int>(fill.value), fill.width);
      continue;
    }
    for (size_t x = 0; x < fill.width; ++x) {
      std::byte* const at = row + x * fill.element;
      if (fill.element == 4) {
        // As a device writes a word: the host may be looking at it.
        std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(at))
            .store(fill.value, std::memory_order_release);
      } else {
        // Little-endian: the low bytes of the value come first.
        std::memcpy(at, &fill.value, fill.element);
      }
    }
  }
}

namespace {

CUresult fill_on(const char* call, const Fill& fill, CUstream stream) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, call, on)) return result;
  if (fill.width == 0) return CUDA_SUCCESS;
  if (const CUresult result = check(fill)) return result;
  auto operation = std::make_shared<Operation>();
  operation->what = call;
  if (const CUresult result = use_by(*held, *operation, fill)) return result;
  operation->run = [fill] {
    run(fill);
    return CUDA_SUCCESS;
  };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  Copy copy;
  copy.to = to;
  copy.from = from;
  copy.width = bytes;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  bool pageable = false;
  if (const CUresult result = use_by(*held, *operation, copy, &pageable)) return result;
  operation->run = [copy] {
    run(copy);
    return CUDA_SUCCESS;
  };
  enqueue(*held, on, std::move(operation));
  if (!pageable) return CUDA_SUCCESS;
  // The driver stages memory that is not pinned, and returns when it is done with it.
  count_if_synchronising(*held, *context, __func__);
  return wait_until_idle(held, on);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return fill_on(__func__, {to, value, 1, bytes}, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream) {
  return fill_on(__func__, {to, value, 4, words}, stream);
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
