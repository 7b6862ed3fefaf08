// The memory of a CudaCore.

#include <fmt/format.h>

#include <array>
#include <new>
#include <utility>

#include "holdfast/hal/cuda/cuda_core.h"

namespace holdfast::hal {
namespace {

// Of pinned memory that waits for an idle moment; more is freed at once, which waits for the GPU.
constexpr Bytes kMostKeptPinned = 256_MiB;

}  // namespace

Result<CudaCore::Memory> CudaCore::allocate(Bytes size, MemoryKind kind, std::string_view what) {
  return kind == MemoryKind::device ? allocate_device(size, what) : allocate_pinned(size, what);
}

Result<CudaCore::Memory> CudaCore::allocate_device(Bytes size, std::string_view what) {
  Memory made;
  made.size = size;
  const auto attempt = [&] {
    const cu::CUresult result =
        cu.cuMemAllocFromPoolAsync(&made.address, size.value, pool_, memory_stream_);
    if (result != cu::CUDA_SUCCESS) return result;
    // Afterwards every stream may use it. No other work runs on this one.
    const cu::CUresult settled = cu.cuStreamSynchronize(memory_stream_);
    if (settled != cu::CUDA_SUCCESS) cu.cuMemFreeAsync(made.address, memory_stream_);
    return settled;
  };
  cu::CUresult result = attempt();
  if (result == cu::CUDA_ERROR_OUT_OF_MEMORY) {
    // What was freed goes back to the driver only when the stream is synchronised.
    (void)cu.cuStreamSynchronize(memory_stream_);
    if (cu.cuMemPoolTrimTo != nullptr) (void)cu.cuMemPoolTrimTo(pool_, 0);
    result = attempt();
  }
  if (Failure failure = check(result, what)) return failure;
  return made;
}

Result<CudaCore::Memory> CudaCore::allocate_pinned(Bytes size, std::string_view what) {
  free_kept_pinned(kMostKeptPinned);
  {
    const sync::LeafLock lock(pinned_mutex_);
    for (Memory& kept : kept_pinned_) {
      if (kept.size != size) continue;
      std::swap(kept, kept_pinned_.back());
      const Memory found = kept_pinned_.back();
      kept_pinned_.pop_back();
      return found;
    }
  }
  void* host = nullptr;
  const auto attempt = [&] {
    return cu.cuMemHostAlloc(&host, size.value,
                             cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP);
  };
  cu::CUresult result = attempt();
  if (result == cu::CUDA_ERROR_OUT_OF_MEMORY) {
    free_kept_pinned(Bytes{});
    result = attempt();
  }
  if (Failure failure = check(result, what)) return failure;
  Memory made{0, static_cast<std::byte*>(host), size};
  if (Failure failure = check(cu.cuMemHostGetDevicePointer(&made.address, host, 0), what)) {
    (void)cu.cuMemFreeHost(host);
    return failure;
  }
  return made;
}

void CudaCore::free(const Memory& memory) noexcept {
  memory_generation_.fetch_add(1);
  if (memory.host == nullptr) {
    (void)cu.cuMemFreeAsync(memory.address, memory_stream_);
    return;
  }
  try {
    const sync::LeafLock lock(pinned_mutex_);
    kept_pinned_.push_back(memory);
  } catch (const std::bad_alloc&) {
    (void)cu.cuMemFreeHost(memory.host);
    return;
  }
  free_kept_pinned(kMostKeptPinned);
}

Result<CudaCore::Memory> CudaCore::import_address(cu::CUdeviceptr address, Bytes size,
                                                  std::string_view what) const {
  unsigned type = 0;
  int ordinal = -1;
  cu::CUdeviceptr begin = 0;
  size_t length = 0;
  std::array attributes{
      cu::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cu::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      cu::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, cu::CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 4> values{&type, &ordinal, &begin, &length};
  if (Failure failure =
          check(cu.cuPointerGetAttributes(4, attributes.data(), values.data(), address), what)) {
    return failure;
  }
  const auto refuse = [&](const std::string& why) {
    return Failure(ErrorCode::usage, fmt::format("{}: {}", what, why));
  };
  if (type != cu::CU_MEMORYTYPE_DEVICE) {
    return refuse(fmt::format("{:#x} is no address of a GPU's memory", address));
  }
  if (ordinal != device) {
    return refuse(fmt::format("{:#x} is memory of GPU {}, and device '{}' is another; copy it",
                              address, ordinal, name));
  }
  if (length != 0 && (address < begin || size.value > begin + length - address)) {
    return refuse(fmt::format("it would end {} bytes behind the memory that it lies in",
                              address + size.value - (begin + length)));
  }
  return Memory{address, nullptr, size};
}

void CudaCore::free_kept_pinned(Bytes most) noexcept {
  for (;;) {
    Memory memory;
    {
      const sync::LeafLock lock(pinned_mutex_);
      Bytes kept{};
      for (const Memory& one : kept_pinned_) kept += one.size;
      if (kept_pinned_.empty() || (kept <= most && !seems_idle())) return;
      memory = kept_pinned_.back();
      kept_pinned_.pop_back();
    }
    (void)cu.cuMemFreeHost(memory.host);
  }
}

}  // namespace holdfast::hal
