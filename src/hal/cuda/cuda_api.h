#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/base/error.h"

// NVIDIA's driver API, as far as Holdfast calls it, by its own names: types and values are those
// of the driver's binary interface, which stays as it is for entry points asked for by version.
// No header of a toolkit is needed; cuda_api_test.cc compares with it where there is one.
namespace holdfast::hal::cu {

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): the driver's names, for
// those who know them.

using CUresult = int;
inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;
inline constexpr CUresult CUDA_ERROR_NOT_INITIALIZED = 3;
inline constexpr CUresult CUDA_ERROR_DEINITIALIZED = 4;
inline constexpr CUresult CUDA_ERROR_DEVICE_UNAVAILABLE = 46;
inline constexpr CUresult CUDA_ERROR_NO_DEVICE = 100;
inline constexpr CUresult CUDA_ERROR_INVALID_DEVICE = 101;
inline constexpr CUresult CUDA_ERROR_INVALID_IMAGE = 200;
inline constexpr CUresult CUDA_ERROR_INVALID_CONTEXT = 201;
inline constexpr CUresult CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
inline constexpr CUresult CUDA_ERROR_ECC_UNCORRECTABLE = 214;
inline constexpr CUresult CUDA_ERROR_INVALID_PTX = 218;
inline constexpr CUresult CUDA_ERROR_NVLINK_UNCORRECTABLE = 220;
inline constexpr CUresult CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221;
inline constexpr CUresult CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222;
inline constexpr CUresult CUDA_ERROR_CONTAINED = 226;
inline constexpr CUresult CUDA_ERROR_INVALID_HANDLE = 400;
inline constexpr CUresult CUDA_ERROR_NOT_FOUND = 500;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;
inline constexpr CUresult CUDA_ERROR_ILLEGAL_ADDRESS = 700;
inline constexpr CUresult CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701;
inline constexpr CUresult CUDA_ERROR_LAUNCH_TIMEOUT = 702;
inline constexpr CUresult CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;
inline constexpr CUresult CUDA_ERROR_ASSERT = 710;
inline constexpr CUresult CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712;
inline constexpr CUresult CUDA_ERROR_HARDWARE_STACK_ERROR = 714;
inline constexpr CUresult CUDA_ERROR_ILLEGAL_INSTRUCTION = 715;
inline constexpr CUresult CUDA_ERROR_MISALIGNED_ADDRESS = 716;
inline constexpr CUresult CUDA_ERROR_INVALID_ADDRESS_SPACE = 717;
inline constexpr CUresult CUDA_ERROR_INVALID_PC = 718;
inline constexpr CUresult CUDA_ERROR_LAUNCH_FAILED = 719;
inline constexpr CUresult CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720;
inline constexpr CUresult CUDA_ERROR_NOT_PERMITTED = 800;
inline constexpr CUresult CUDA_ERROR_NOT_SUPPORTED = 801;
inline constexpr CUresult CUDA_ERROR_SYSTEM_NOT_READY = 802;
inline constexpr CUresult CUDA_ERROR_EXTERNAL_DEVICE = 911;
inline constexpr CUresult CUDA_ERROR_INVALID_CLUSTER_SIZE = 912;
inline constexpr CUresult CUDA_ERROR_UNKNOWN = 999;

using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;

// CUdevice_attribute.
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7;
inline constexpr int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20;
inline constexpr int CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40;
inline constexpr int CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
inline constexpr int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
inline constexpr int CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95;
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
inline constexpr int CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115;
inline constexpr int CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122;

// Flags.
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned CU_MEMHOSTREGISTER_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTREGISTER_DEVICEMAP = 2;
inline constexpr unsigned CU_STREAM_WAIT_VALUE_GEQ = 0;
inline constexpr unsigned CU_STREAM_WRITE_VALUE_DEFAULT = 0;

// CUfunction_attribute.
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
inline constexpr int CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
inline constexpr int CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
inline constexpr int CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14;

// CUpointer_attribute.
inline constexpr int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
inline constexpr int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;
inline constexpr int CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;
// CUmemorytype.
inline constexpr unsigned CU_MEMORYTYPE_HOST = 1;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned CU_MEMORYTYPE_UNIFIED = 4;

// Launches whose arguments lie in one block of bytes.
inline constexpr uintptr_t CU_LAUNCH_PARAM_END = 0;
inline constexpr uintptr_t CU_LAUNCH_PARAM_BUFFER_POINTER = 1;
inline constexpr uintptr_t CU_LAUNCH_PARAM_BUFFER_SIZE = 2;

// CUmemPool_attribute, CUmemLocationType, CUmemAllocationType.
inline constexpr int CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4;
inline constexpr int CU_MEM_LOCATION_TYPE_DEVICE = 1;
inline constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1;

struct CUmemLocation {
  int type = 0;
  int id = 0;
};

struct CUmemPoolProps {
  int allocType = 0;
  int handleTypes = 0;
  CUmemLocation location;
  void* win32SecurityAttributes = nullptr;
  size_t maxSize = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(CUmemPoolProps) == 88);

// CUlaunchAttributeID.
inline constexpr int CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2;
inline constexpr int CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4;
inline constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;

struct CUlaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union Value {
    char bytes[64] = {};
    int cooperative;
    struct {
      unsigned x;
      unsigned y;
      unsigned z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  unsigned gridDimX = 1;
  unsigned gridDimY = 1;
  unsigned gridDimZ = 1;
  unsigned blockDimX = 1;
  unsigned blockDimY = 1;
  unsigned blockDimZ = 1;
  unsigned sharedMemBytes = 0;
  CUstream hStream = nullptr;
  CUlaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
static_assert(sizeof(CUlaunchConfig) == 56);

// CUDA_KERNEL_NODE_PARAMS, version 2.
struct CudaKernelNodeParams {
  CUfunction func = nullptr;
  unsigned gridDimX = 1;
  unsigned gridDimY = 1;
  unsigned gridDimZ = 1;
  unsigned blockDimX = 1;
  unsigned blockDimY = 1;
  unsigned blockDimZ = 1;
  unsigned sharedMemBytes = 0;
  void** kernelParams = nullptr;
  void** extra = nullptr;
  void* kern = nullptr;
  CUcontext ctx = nullptr;
};
static_assert(sizeof(CudaKernelNodeParams) == 72);

// CUDA_MEMSET_NODE_PARAMS, version 1.
struct CudaMemsetNodeParams {
  CUdeviceptr dst = 0;
  size_t pitch = 0;
  unsigned value = 0;
  unsigned elementSize = 1;
  size_t width = 0;
  size_t height = 1;
};
static_assert(sizeof(CudaMemsetNodeParams) == 40);

// CUDA_MEMCPY3D, version 2.
struct CudaMemcpy3D {
  size_t srcXInBytes = 0;
  size_t srcY = 0;
  size_t srcZ = 0;
  size_t srcLOD = 0;
  unsigned srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  const void* srcHost = nullptr;
  CUdeviceptr srcDevice = 0;
  void* srcArray = nullptr;
  void* reserved0 = nullptr;
  size_t srcPitch = 0;
  size_t srcHeight = 0;
  size_t dstXInBytes = 0;
  size_t dstY = 0;
  size_t dstZ = 0;
  size_t dstLOD = 0;
  unsigned dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  void* dstHost = nullptr;
  CUdeviceptr dstDevice = 0;
  void* dstArray = nullptr;
  void* reserved1 = nullptr;
  size_t dstPitch = 0;
  size_t dstHeight = 0;
  size_t WidthInBytes = 0;
  size_t Height = 1;
  size_t Depth = 1;
};
static_assert(sizeof(CudaMemcpy3D) == 200);

// CUgraphEdgeData.
struct CUgraphEdgeData {
  unsigned char from_port = 0;
  unsigned char to_port = 0;
  unsigned char type = 0;
  unsigned char reserved[5] = {};
};
static_assert(sizeof(CUgraphEdgeData) == 8);
inline constexpr unsigned char CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1;
inline constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1;

// Every entry point that Holdfast and its tests call: name, the version of CUDA whose interface is
// meant, and the parameters. Results are CUresult.
// clang-format off
#define HOLDFAST_CUDA_CALLS(X)                                                                    \
  X(cuInit, 2000, (unsigned flags))                                                               \
  X(cuDriverGetVersion, 2020, (int* version))                                                     \
  X(cuGetErrorName, 6000, (CUresult error, const char** text))                                    \
  X(cuGetErrorString, 6000, (CUresult error, const char** text))                                  \
  X(cuDeviceGetCount, 2000, (int* count))                                                         \
  X(cuDeviceGet, 2000, (CUdevice* device, int ordinal))                                           \
  X(cuDeviceGetName, 2000, (char* name, int length, CUdevice device))                             \
  X(cuDeviceGetAttribute, 2000, (int* value, int attribute, CUdevice device))                     \
  X(cuDeviceTotalMem, 3020, (size_t* bytes, CUdevice device))                                     \
  X(cuDevicePrimaryCtxRetain, 7000, (CUcontext* context, CUdevice device))                        \
  X(cuDevicePrimaryCtxRelease, 11000, (CUdevice device))                                          \
  X(cuCtxPushCurrent, 4000, (CUcontext context))                                                  \
  X(cuCtxPopCurrent, 4000, (CUcontext* context))                                                  \
  X(cuCtxGetCurrent, 4000, (CUcontext* context))                                                  \
  X(cuStreamCreate, 2000, (CUstream* stream, unsigned flags))                                     \
  X(cuStreamDestroy, 4000, (CUstream stream))                                                     \
  X(cuStreamQuery, 2000, (CUstream stream))                                                       \
  X(cuStreamSynchronize, 2000, (CUstream stream))                                                 \
  X(cuStreamIsCapturing, 10000, (CUstream stream, int* status))                                   \
  X(cuStreamWaitEvent, 3020, (CUstream stream, CUevent event, unsigned flags))                    \
  X(cuStreamWriteValue64, 11070,                                                                  \
    (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags))                       \
  X(cuStreamWaitValue64, 11070,                                                                   \
    (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags))                       \
  X(cuEventCreate, 2000, (CUevent* event, unsigned flags))                                        \
  X(cuEventDestroy, 4000, (CUevent event))                                                        \
  X(cuEventRecord, 2000, (CUevent event, CUstream stream))                                        \
  X(cuEventQuery, 2000, (CUevent event))                                                          \
  X(cuEventElapsedTime, 2000, (float* milliseconds, CUevent begin, CUevent end))                  \
  X(cuMemGetInfo, 3020, (size_t* free, size_t* total))                                            \
  X(cuMemPoolCreate, 11020, (CUmemoryPool* pool, const CUmemPoolProps* properties))               \
  X(cuMemPoolDestroy, 11020, (CUmemoryPool pool))                                                 \
  X(cuMemPoolSetAttribute, 11020, (CUmemoryPool pool, int attribute, void* value))                \
  X(cuMemPoolTrimTo, 11020, (CUmemoryPool pool, size_t kept))                                     \
  X(cuMemAllocFromPoolAsync, 11020,                                                               \
    (CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream))                     \
  X(cuMemFreeAsync, 11020, (CUdeviceptr address, CUstream stream))                                \
  X(cuMemHostAlloc, 2020, (void** address, size_t bytes, unsigned flags))                         \
  X(cuMemFreeHost, 2000, (void* address))                                                         \
  X(cuMemHostRegister, 6050, (void* address, size_t bytes, unsigned flags))                       \
  X(cuMemHostUnregister, 4000, (void* address))                                                   \
  X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr* address, void* host, unsigned flags))          \
  X(cuPointerGetAttributes, 7000,                                                                 \
    (unsigned count, int* attributes, void** values, CUdeviceptr address))                        \
  X(cuMemcpyAsync, 4000, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
  X(cuMemsetD8Async, 3020,                                                                        \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                         \
  X(cuMemsetD32Async, 3020, (CUdeviceptr to, unsigned value, size_t words, CUstream stream))      \
  X(cuModuleLoadDataEx, 2010,                                                                     \
    (CUmodule* module, const void* image, unsigned count, int* options, void** values))           \
  X(cuModuleUnload, 2000, (CUmodule module))                                                      \
  X(cuModuleGetFunction, 2000, (CUfunction* function, CUmodule module, const char* name))         \
  X(cuFuncGetAttribute, 2020, (int* value, int attribute, CUfunction function))                   \
  X(cuFuncSetAttribute, 9000, (CUfunction function, int attribute, int value))                    \
  X(cuFuncGetParamInfo, 12040,                                                                    \
    (CUfunction function, size_t index, size_t* offset, size_t* size))                            \
  X(cuLaunchKernel, 4000,                                                                         \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                  \
     void** arguments, void** extra))                                                             \
  X(cuLaunchKernelEx, 11060,                                                                      \
    (const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra))          \
  X(cuGraphCreate, 10000, (CUgraph* graph, unsigned flags))                                       \
  X(cuGraphDestroy, 10000, (CUgraph graph))                                                       \
  X(cuGraphAddKernelNode, 12000,                                                                  \
    (CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,                    \
     const CudaKernelNodeParams* parameters))                                                     \
  X(cuGraphAddMemcpyNode, 10000,                                                                  \
    (CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,                    \
     const CudaMemcpy3D* parameters, CUcontext context))                                          \
  X(cuGraphAddMemsetNode, 10000,                                                                  \
    (CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,                    \
     const CudaMemsetNodeParams* parameters, CUcontext context))                                  \
  X(cuGraphAddDependencies, 12030,                                                                \
    (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, \
     size_t count))                                                                               \
  X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec* exec, CUgraph graph, unsigned long long flags))      \
  X(cuGraphExecDestroy, 10000, (CUgraphExec exec))                                                \
  X(cuGraphExecKernelNodeSetParams, 12000,                                                        \
    (CUgraphExec exec, CUgraphNode node, const CudaKernelNodeParams* parameters))                 \
  X(cuGraphExecMemcpyNodeSetParams, 10020,                                                        \
    (CUgraphExec exec, CUgraphNode node, const CudaMemcpy3D* parameters, CUcontext context))      \
  X(cuGraphExecMemsetNodeSetParams, 10020,                                                        \
    (CUgraphExec exec, CUgraphNode node, const CudaMemsetNodeParams* parameters,                  \
     CUcontext context))                                                                          \
  X(cuGraphLaunch, 10000, (CUgraphExec exec, CUstream stream))
// clang-format on

struct Calls {
#define HOLDFAST_CUDA_MEMBER(name, version, parameters) CUresult(*name) parameters = nullptr;
  HOLDFAST_CUDA_CALLS(HOLDFAST_CUDA_MEMBER)
#undef HOLDFAST_CUDA_MEMBER
};

// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

}  // namespace holdfast::hal::cu

namespace holdfast::hal {

// The driver, found and loaded while the program runs; nothing is linked. Once loaded it stays for
// the rest of the process. Immutable.
class CudaApi {
 public:
  // The library at this path; empty: what HOLDFAST_CUDA_DRIVER names, else libcuda.so.1 where the
  // loader looks. Initialized, and the same for equal paths. ErrorCode::environment where there is
  // none, or one older than CUDA 12.0, or without an entry point that cannot be done without: the
  // message says what to install.
  static Result<std::shared_ptr<const CudaApi>> load(const std::string& path = {});

  // 12040: CUDA 12.4.
  int version() const noexcept { return version_; }

  // Null where a driver lacks it; only those that is_optional() names may be missing.
  const cu::Calls& calls() const noexcept { return calls_; }
  static bool is_optional(std::string_view call) noexcept;

  // "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
  std::string describe(cu::CUresult result) const;

 private:
  CudaApi() = default;
  cu::Calls calls_;
  int version_ = 0;
};

}  // namespace holdfast::hal
