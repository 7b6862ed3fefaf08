#include "holdfast/testing/stub_cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/stream.h"

// Memory: pools of the device's, pinned and registered memory of the host. A device address is an
// address of this process.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

std::string describe(const Allocation& allocation) {
  return fmt::format("[{:#x}, {:#x}) of {}", allocation.begin, allocation.end(), allocation.call);
}

// What is in flight and touches the memory, for people.
std::string user_of(const State& state, const Allocation& allocation) {
  for (const auto& stream : state.active) {
    for (const auto& operation : stream->queue) {
      const auto& memory = operation->memory;
      if (std::ranges::any_of(memory, [&](const auto& m) { return m.get() == &allocation; })) {
        return fmt::format("'{}' in {}", operation->what, stream->name);
      }
    }
  }
  return "an operation";
}

// The memory that was freed there; null: none.
const Freed* find_freed(State& state, uint64_t address) {
  auto at = state.freed.upper_bound(address);
  if (at == state.freed.begin()) return nullptr;
  --at;
  if (address >= at->second.end) return nullptr;
  if (!at->second.arena.expired()) return &at->second;
  state.freed.erase(at);
  return nullptr;
}

void add_use(Operation& operation, const std::shared_ptr<Allocation>& allocation) {
  auto& memory = operation.memory;
  if (std::ranges::find(memory, allocation) == memory.end()) memory.push_back(allocation);
}

// Memory of the driver's own, which finds it from then on. Null where there is none left.
std::shared_ptr<Allocation> allocate(State& state, const char* call, MemoryOf kind, size_t bytes,
                                     const std::shared_ptr<Context>& context) {
  Mapping mapping = Mapping::make(state.arena, bytes);
  if (mapping.begin() == nullptr) return nullptr;
  auto made = std::make_shared<Allocation>();
  made->call = call;
  made->kind = kind;
  made->begin = reinterpret_cast<uintptr_t>(mapping.begin());
  made->bytes = bytes;
  made->context = context;
  made->mapping = std::move(mapping);
  state.memory.emplace(made->begin, made);
  return made;
}

// What begins there and is of this kind.
std::shared_ptr<Allocation> find_exactly(const State& state, const void* address, MemoryOf kind) {
  const auto found = state.memory.find(reinterpret_cast<uintptr_t>(address));
  if (found == state.memory.end() || found->second->kind != kind) return nullptr;
  return found->second;
}

// Frees host memory in the call itself.
void free_now(State& state, Allocation& allocation, const char* call) {
  if (allocation.users > 0) {
    violation(state, "{} of {} while {} uses it", call, describe(allocation),
              user_of(state, allocation));
  }
  count_if_synchronising(state, *allocation.context, call);
  forget(state, allocation);
}

}  // namespace

std::shared_ptr<Allocation> find_memory(const State& state, uint64_t address) {
  auto at = state.memory.upper_bound(address);
  if (at == state.memory.begin()) return nullptr;
  --at;
  return address < at->second->end() ? at->second : nullptr;
}

bool is_device_memory(const State& state, uint64_t address) {
  const auto found = find_memory(state, address);
  return found && found->kind == MemoryOf::device;
}

void forget(State& state, Allocation& allocation) {
  const auto at = state.memory.find(allocation.begin);
  if (at == state.memory.end() || at->second.get() != &allocation) return;
  allocation.freed = true;
  if (allocation.kind == MemoryOf::device) {
    const auto ordinal = static_cast<size_t>(allocation.context->device);
    if (ordinal < state.devices.size()) {
      uint64_t& used = state.devices[ordinal].used;
      used -= std::min<uint64_t>(used, allocation.bytes);
    }
  }
  if (allocation.kind != MemoryOf::registered) {
    state.freed[allocation.begin] = {allocation.end(), describe(allocation),
                                     allocation.mapping.arena()};
  }
  state.memory.erase(at);
}

CUresult use(State& state, Operation& operation, uint64_t address, size_t bytes, bool* pageable) {
  if (const auto allocation = find_memory(state, address)) {
    if (bytes > allocation->end() - address) return CUDA_ERROR_INVALID_VALUE;
    if (allocation->free_asked) {
      violation(state, "'{}' uses {}, which was given to cuMemFreeAsync before", operation.what,
                describe(*allocation));
      return CUDA_ERROR_INVALID_VALUE;
    }
    add_use(operation, allocation);
    return CUDA_SUCCESS;
  }
  if (const Freed* const freed = find_freed(state, address)) {
    violation(state, "'{}' uses {}, which was freed", operation.what, freed->what);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (address == 0 || pageable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pageable = true;
  return CUDA_SUCCESS;
}

void use_if_pointer(State& state, Operation& operation, uint64_t word) {
  if (const auto allocation = find_memory(state, word)) {
    if (allocation->free_asked) {
      violation(state, "'{}' gets a pointer into {}, which was given to cuMemFreeAsync before",
                operation.what, describe(*allocation));
    }
    add_use(operation, allocation);
  } else if (const Freed* const freed = find_freed(state, word)) {
    violation(state, "'{}' gets a pointer into {}, which was freed", operation.what, freed->what);
    operation.uses_freed_memory = true;
  }
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  const Device& device = held->devices.at(static_cast<size_t>(context->device));
  *total = device.description.memory;
  *free = *total - std::min<uint64_t>(*total, device.used);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (pool == nullptr || properties == nullptr ||
      properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->location.id < 0 ||
      static_cast<size_t>(properties->location.id) >= held->devices.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int supported = 0;
  const Device& device = held->devices[static_cast<size_t>(properties->location.id)];
  attribute_of(device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, supported);
  if (supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_shared<Pool>();
  made->context = context;
  made->device = properties->location.id;
  *pool = held->pools.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Pool> found;
  if (const CUresult result = find(*held, held->pools, pool, __func__, found)) return result;
  held->pools.remove(pool);  // what was allocated from it lives on until it is freed
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Pool> found;
  if (const CUresult result = find(*held, held->pools, pool, __func__, found)) return result;
  // Attributes 1 to 4 may be set; the others are measurements.
  return attribute >= 1 && attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != nullptr
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t /*kept*/) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Pool> found;
  return find(*held, held->pools, pool, __func__, found);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Pool> from;
  if (const CUresult result = find(*held, held->pools, pool, __func__, from)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Device& device = held->devices.at(static_cast<size_t>(context->device));
  if (bytes > device.description.memory - std::min(device.used, device.description.memory)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto made = allocate(*held, __func__, MemoryOf::device, bytes, context);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += bytes;
  made->available = false;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  operation->done = [made] { made->available = true; };
  enqueue(*held, on, std::move(operation));
  *address = made->begin;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  const auto found = find_exactly(*held, pointer_of<const void>(address), MemoryOf::device);
  if (!found || found->free_asked) {
    violation(*held, "cuMemFreeAsync of {:#x}, which is not allocated (any more)", address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->free_asked = true;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  State& state = *held;  // lives as long as the process
  operation->done = [&state, found] {
    if (found->users > 0) {
      violation(state, "cuMemFreeAsync of {} was not made to wait for {}, which uses it",
                describe(*found), user_of(state, *found));
    }
    if (!found->available) {
      violation(state, "cuMemFreeAsync of {} was not made to wait for its allocation",
                describe(*found));
    }
    forget(state, *found);
  };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto made = allocate(*held, __func__, MemoryOf::host, bytes, context);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = pointer_of<void>(made->begin);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  const auto found = find_exactly(*held, address, MemoryOf::host);
  if (!found) {
    violation(*held, "cuMemFreeHost of {}, which is not allocated (any more)",
              static_cast<const void*>(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  free_now(*held, *found, __func__);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned /*flags*/) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto behind = held->memory.lower_bound(begin);
  if (find_memory(*held, begin) ||
      (behind != held->memory.end() && behind->second->begin < begin + bytes)) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  auto made = std::make_shared<Allocation>();
  made->call = __func__;
  made->kind = MemoryOf::registered;
  made->begin = begin;
  made->bytes = bytes;
  made->context = context;
  held->memory.emplace(begin, std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* address) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  const auto found = find_exactly(*held, address, MemoryOf::registered);
  if (!found) {
    violation(*held, "cuMemHostUnregister of {}, which is not registered (any more)",
              static_cast<const void*>(address));
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  free_now(*held, *found, __func__);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned flags) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  const auto found = find_memory(*held, reinterpret_cast<uintptr_t>(host));
  if (address == nullptr || flags != 0 || !found || found->kind == MemoryOf::device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = reinterpret_cast<uintptr_t>(host);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                                CUdeviceptr address) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (count == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = find_memory(*held, address);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = !found ? 0
                                             : found->kind == MemoryOf::device
                                                 ? CU_MEMORYTYPE_DEVICE
                                                 : CU_MEMORYTYPE_HOST;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = found ? found->context->device : -2;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<uintptr_t*>(values[i]) = found ? found->begin : 0;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(values[i]) = found ? found->bytes : 0;
        break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
