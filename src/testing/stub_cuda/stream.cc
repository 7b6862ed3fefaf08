#include "holdfast/testing/stub_cuda/stream.h"

#include <algorithm>
#include <chrono>

#include "holdfast/base/sync/thread.h"
#include "holdfast/testing/stub_cuda/calls.h"

// Streams: each executes its operations in order, on a thread of its own that starts with the first
// of them.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

// How often a stream looks at a value that the host may change: as seldom as a test can bear.
constexpr sync::Duration kPollInterval = std::chrono::microseconds(200);

enum class Step : uint8_t { sleep, blocked, discard, run, end };

Step next_step(const State& state, const Stream& stream) {
  if (stream.queue.empty()) return stream.destroyed ? Step::end : Step::sleep;
  if (stream.context->stopped()) return Step::discard;
  if (stream.held || state.all_held) return Step::sleep;
  const Operation& first = *stream.queue.front();
  return first.ready && !first.ready() ? Step::blocked : Step::run;
}

Step wait_for_step(Held& held, Stream& stream) {
  Step step = Step::sleep;
  for (;;) {
    const auto look = [&] {
      step = next_step(*held, stream);
      stream.blocked = step == Step::blocked;
      return step != Step::sleep && step != Step::blocked;
    };
    if (look()) return step;
    if (step == Step::blocked && stream.queue.front()->polls) {
      if (held.wait_until(stream.wake, sync::Deadline::after(kPollInterval), look)) return step;
    } else {
      // Ends where what it waits for has become one that must be polled, too.
      held.wait(stream.wake,
                [&] { return look() || (step == Step::blocked && stream.queue.front()->polls); });
    }
  }
}

// Whether everything is there that the operation uses.
CUresult check_uses(State& state, const Stream& stream, const Operation& operation) {
  for (const auto& memory : operation.memory) {
    if (memory->freed) {
      violation(state, "'{}' in {} runs, and the memory at {:#x} that it uses is freed",
                operation.what, stream.name, memory->begin);
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!memory->available) {
      violation(state, "'{}' in {} runs before the allocation at {:#x}, which it uses",
                operation.what, stream.name, memory->begin);
    }
  }
  for (const auto& module : operation.modules) {
    if (!module->unloaded) continue;
    violation(state, "'{}' in {} runs, and its module is unloaded", operation.what, stream.name);
    return CUDA_ERROR_LAUNCH_FAILED;
  }
  return operation.uses_freed_memory ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

// Takes the first operation out.
std::shared_ptr<Operation> end_first(State& state, Stream& stream) {
  std::shared_ptr<Operation> ended = std::move(stream.queue.front());
  stream.queue.pop_front();
  ended->over = true;
  for (const auto& memory : ended->memory) --memory->users;
  for (const auto& module : ended->modules) --module->users;
  state.progress.notify_all();
  for (const auto& other : state.active) {
    if (other->blocked) other->wake.notify_all();
  }
  return ended;
}

void run_first(Held& held, Stream& stream) {
  const std::shared_ptr<Operation> operation = stream.queue.front();
  CUresult result = check_uses(*held, stream, *operation);
  if (result == CUDA_SUCCESS && operation->run) {
    stream.running = true;
    held.unlock();
    try {
      result = operation->run();
    } catch (...) {
      result = CUDA_ERROR_LAUNCH_FAILED;
    }
    held.lock();
    stream.running = false;
  }
  // One that ran while its context stopped is over, too.
  if (result == CUDA_SUCCESS && operation->done) operation->done();
  if (result != CUDA_SUCCESS) fault(*held, *stream.context, result);
  end_first(*held, stream);
}

void run_stream(const std::shared_ptr<Stream>& stream) {
  Held held;
  for (;;) {
    switch (wait_for_step(held, *stream)) {
      case Step::discard: end_first(*held, *stream); break;
      case Step::run: run_first(held, *stream); break;
      default:
        std::erase(held->active, stream);
        held->progress.notify_all();
        return;
    }
  }
}

// CU_STREAM_LEGACY.
constexpr uintptr_t kLegacyStream = 1;

CUresult find_legacy(State& state, std::shared_ptr<Stream>& stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(state, context)) return result;
  for (const auto& made : state.legacy_streams) {
    if (made->context == context) stream = made;
  }
  if (!stream) {
    stream = std::make_shared<Stream>();
    stream->context = context;
    stream->legacy = true;
    stream->name = "the legacy default stream";
    state.legacy_streams.push_back(stream);
  }
  return context->error;
}

// The legacy stream comes after what blocking streams have by now, and what they get later after
// it.
void follow_others(const State& state, const Stream& stream, Operation& operation) {
  if (!stream.legacy && !stream.blocking) return;
  std::vector<std::shared_ptr<Operation>> before;
  const auto add = [&](const std::shared_ptr<Stream>& other) {
    if (other->context == stream.context && !other->queue.empty()) {
      before.push_back(other->queue.back());
    }
  };
  if (stream.legacy) {
    state.streams.for_each([&](const auto& other) {
      if (other->blocking) add(other);
    });
  } else {
    for (const auto& other : state.legacy_streams) add(other);
  }
  if (before.empty()) return;
  operation.ready = [before = std::move(before), own = std::move(operation.ready)] {
    return std::ranges::all_of(before, [](const auto& other) { return other->over; }) &&
           (!own || own());
  };
}

}  // namespace

CUresult find_stream(State& state, CUstream handle, const char* call,
                     std::shared_ptr<Stream>& stream) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number == kLegacyStream) return find_legacy(state, stream);
  if (number <= 2) {
    violation(state, "{} on a default stream that the stub does not have; it has the legacy one, 1",
              call);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (const CUresult result = find(state, state.streams, handle, call, stream)) return result;
  return stream->context->error;
}

void enqueue(State& state, const std::shared_ptr<Stream>& stream,
             std::shared_ptr<Operation> operation) {
  if (!stream->started) {
    sync::Thread("stub-cuda", [stream] { run_stream(stream); }).detach();
    stream->started = true;
    state.active.push_back(stream);
  }
  follow_others(state, *stream, *operation);
  for (const auto& memory : operation->memory) ++memory->users;
  for (const auto& module : operation->modules) ++module->users;
  stream->queue.push_back(std::move(operation));
  stream->wake.notify_all();
}

CUresult wait_until_idle(Held& held, const std::shared_ptr<Stream>& stream) {
  held.wait(held->progress, [&] { return stream->queue.empty() || stream->context->stopped(); });
  return stream->context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : stream->context->error;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Stream>();
  made->context = context;
  made->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  *stream = held->streams.add(made);
  made->name = fmt::format("stream {:#x}", reinterpret_cast<uintptr_t>(*stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> found;
  if (const CUresult result = find_stream(*held, stream, __func__, found)) return result;
  if (!found->queue.empty()) {
    // The driver lets the work finish, and so does the stub; Holdfast destroys nothing in use.
    violation(*held, "cuStreamDestroy of {} while it has '{}' in flight", found->name,
              found->queue.front()->what);
  }
  held->streams.remove(stream);
  found->destroyed = true;
  found->wake.notify_all();
  return CUDA_SUCCESS;
}

// The stub has no capture.
CUresult cuStreamIsCapturing(CUstream, int* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> found;
  if (const CUresult result = find_stream(*held, stream, __func__, found)) return result;
  return found->queue.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream) {
  Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> found;
  if (const CUresult result = find_stream(*held, stream, __func__, found)) return result;
  return wait_until_idle(held, found);
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
