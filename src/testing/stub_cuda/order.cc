#include <atomic>
#include <chrono>

#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/memory.h"
#include "holdfast/testing/stub_cuda/stream.h"

// What orders streams among each other and with the host: events, and values in memory.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

// What both operations on values check; `value` is where it lies.
CUresult check_value(State& state, CUstream stream, const char* call, CUdeviceptr address,
                     std::shared_ptr<Stream>& on, Operation& operation) {
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(state, context)) return result;
  if (const CUresult result = find_stream(state, stream, call, on)) return result;
  int supported = 0;
  attribute_of(state.devices.at(static_cast<size_t>(context->device)),
               CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, supported);
  if (supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (address % sizeof(uint64_t) != 0) return CUDA_ERROR_INVALID_VALUE;
  operation.what = call;
  return use(state, operation, address, sizeof(uint64_t));
}

std::atomic_ref<uint64_t> value_at(CUdeviceptr address) {
  return std::atomic_ref<uint64_t>(*pointer_of<uint64_t>(address));
}

}  // namespace

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (event == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Event>();
  made->context = context;
  made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = held->events.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Event> found;
  if (const CUresult result = find(*held, held->events, event, __func__, found)) return result;
  if (found->users > 0) {
    // The driver lets the work finish, and so does the stub; Holdfast destroys nothing in use.
    violation(*held, "cuEventDestroy of {:#x} while it is recorded or waited for",
              reinterpret_cast<uintptr_t>(event));
  }
  held->events.remove(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Event> found;
  if (const CUresult result = find(*held, held->events, event, __func__, found)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  if (on->context != found->context) return CUDA_ERROR_INVALID_HANDLE;
  found->latest = std::make_shared<Recording>();
  ++found->users;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  operation->done = [found, recording = found->latest] {
    recording->done = true;
    recording->when = sync::now();
    --found->users;
  };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Event> found;
  if (const CUresult result = find(*held, held->events, event, __func__, found)) return result;
  return !found->latest || found->latest->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Event> first;
  if (const CUresult result = find(*held, held->events, begin, __func__, first)) return result;
  std::shared_ptr<Event> last;
  if (const CUresult result = find(*held, held->events, end, __func__, last)) return result;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!first->timed || !last->timed || !first->latest || !last->latest) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!first->latest->done || !last->latest->done) return CUDA_ERROR_NOT_READY;
  *milliseconds =
      std::chrono::duration<float, std::milli>(last->latest->when - first->latest->when).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Event> found;
  if (const CUresult result = find(*held, held->events, event, __func__, found)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  if (!found->latest) return CUDA_SUCCESS;
  ++found->users;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  operation->ready = [recording = found->latest] { return recording->done; };
  operation->done = [found] { --found->users; };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, uint64_t value,
                              unsigned /*flags*/) {
  const Held held;
  std::shared_ptr<Stream> on;
  auto operation = std::make_shared<Operation>();
  if (const CUresult result = check_value(*held, stream, __func__, address, on, *operation)) {
    return result;
  }
  // In the step that ends the operation: whoever sees the value finds the write over.
  operation->done = [address, value] { value_at(address).store(value, std::memory_order_release); };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  const Held held;
  std::shared_ptr<Stream> on;
  auto operation = std::make_shared<Operation>();
  if (const CUresult result = check_value(*held, stream, __func__, address, on, *operation)) {
    return result;
  }
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  operation->polls = true;
  operation->ready = [address, value, memory = operation->memory.front()] {
    // Freed meanwhile: it starts, and is found out.
    if (memory->freed) return true;
    const uint64_t now = value_at(address).load(std::memory_order_acquire);
    return static_cast<int64_t>(now - value) >= 0;
  };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
