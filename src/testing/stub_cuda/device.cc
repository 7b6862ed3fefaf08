#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/graph.h"
#include "holdfast/testing/stub_cuda/memory.h"

// The driver itself, its devices and their contexts.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

constexpr std::pair<int, int> kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
};

// The contexts that a thread has pushed. A thread's go with it.
using Stack = std::vector<CUcontext>;

Stack& stack_of_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void* stack) { delete static_cast<Stack*>(stack); });
    return made;
  }();
  auto* stack = static_cast<Stack*>(pthread_getspecific(key));
  if (stack == nullptr) {
    stack = new Stack;
    pthread_setspecific(key, stack);
  }
  return *stack;
}

CUresult find_device(State& state, int ordinal, Device*& device) {
  if (!state.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= state.devices.size()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  device = &state.devices[static_cast<size_t>(ordinal)];
  return CUDA_SUCCESS;
}

// All that a context owns, gone with it.
void destroy_context(Held& held, CUcontext handle) {
  const std::shared_ptr<Context> context = held->contexts.remove(handle);
  if (!context) return;
  const auto is_ours = [&](const auto& object) { return object.context == context; };
  if (!context->stopped()) {
    for (const auto& stream : held->active) {
      if (!is_ours(*stream) || stream->queue.empty()) continue;
      violation(*held, "the last cuDevicePrimaryCtxRelease came while {} had '{}' in flight",
                stream->name, stream->queue.front()->what);
    }
  }
  context->destroyed = true;
  held->streams.for_each([&](const auto& stream) {
    if (is_ours(*stream)) stream->destroyed = true;
  });
  for (const auto& stream : held->legacy_streams) {
    if (is_ours(*stream)) stream->destroyed = true;
  }
  for (const auto& stream : held->active) stream->wake.notify_all();
  held.wait(held->progress, [&] {
    return std::ranges::none_of(
        held->active, [&](const auto& stream) { return is_ours(*stream) && stream->running; });
  });
  held->streams.remove_if(is_ours);
  std::erase_if(held->legacy_streams, [&](const auto& stream) { return is_ours(*stream); });
  held->events.remove_if(is_ours);
  held->functions.remove_if([&](const Function& f) { return f.module->context == context; });
  held->modules.remove_if(is_ours);
  held->pools.remove_if(is_ours);
  held->execs.remove_if(is_ours);
  held->nodes.remove_if(is_ours);
  held->graphs.remove_if(is_ours);
  std::vector<std::shared_ptr<Allocation>> left;
  for (const auto& [begin, allocation] : held->memory) {
    if (is_ours(*allocation)) left.push_back(allocation);
  }
  for (const auto& allocation : left) forget(*held, *allocation);
}

}  // namespace

CUresult enter(const State& state, std::shared_ptr<Context>& context) {
  if (!state.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  const Stack& stack = stack_of_thread();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context = state.contexts.find(stack.back());
  if (!context || context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context->error;
}

CUresult attribute_of(const Device& device, int attribute, int& value) {
  const auto& own = device.description.attributes;
  if (const auto found = own.find(attribute); found != own.end()) {
    value = found->second;
    return CUDA_SUCCESS;
  }
  for (const auto& [known, by_default] : kAttributes) {
    if (known != attribute) continue;
    value = by_default;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Held held;
  if (held->devices.empty()) return CUDA_ERROR_NO_DEVICE;
  if (!std::exchange(held->initialized, true)) {
    std::atexit([] {
      if (is_fork()) return;  // a child may have a copy of a locked mutex
      Held ending;
      if (ending->shuts_down_at_exit) shut_down(ending);
    });
  }
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = Held()->version;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const Held held;
  if (!held->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = static_cast<int>(held->devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, ordinal, found)) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, device, found)) return result;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::string& text = found->description.name;
  const size_t copied = std::min(text.size(), static_cast<size_t>(length) - 1);
  std::memcpy(name, text.data(), copied);
  name[copied] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  const Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, device, found)) return result;
  return attribute_of(*found, attribute, *value);
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  const Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, device, found)) return result;
  *bytes = found->description.memory;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, device, found)) return result;
  if (found->retains == 0) {
    auto made = std::make_shared<Context>();
    made->device = device;
    found->primary = held->contexts.add(std::move(made));
  }
  ++found->retains;
  *context = found->primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  Held held;
  Device* found = nullptr;
  if (const CUresult result = find_device(*held, device, found)) return result;
  if (found->retains == 0) {
    violation(*held, "cuDevicePrimaryCtxRelease({}) without a context that was retained", device);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--found->retains == 0) destroy_context(held, std::exchange(found->primary, nullptr));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const Held held;
  if (!held->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  std::shared_ptr<Context> found;
  if (find(*held, held->contexts, context, __func__, found)) return CUDA_ERROR_INVALID_CONTEXT;
  stack_of_thread().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  const Held held;
  if (!held->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  Stack& stack = stack_of_thread();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const Held held;
  if (!held->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Stack& stack = stack_of_thread();
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
