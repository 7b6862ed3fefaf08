// The counters of a CudaCore, and who waits for them: streams of its queues and native ones.

#include <algorithm>
#include <new>
#include <utility>

#include "holdfast/hal/cuda/cuda_core.h"

namespace holdfast::hal {
namespace {

// Counters of different streams lie in different cache lines.
constexpr size_t kCounterStride = 128;
constexpr size_t kCountersPerBlock = 512;

}  // namespace

Result<CudaCore::Counter> CudaCore::take_counter() {
  const sync::Lock lock(counters_mutex_);
  // Whoever was to write it has: nobody else will.
  if (!spare_counters_.empty()) {
    const Counter spare = spare_counters_.front();
    const auto now = static_cast<uint32_t>(spare.host->load(std::memory_order_acquire));
    if (now == static_cast<uint32_t>(spare.last)) {
      spare_counters_.pop_front();
      return spare;
    }
    std::rotate(spare_counters_.begin(), spare_counters_.begin() + 1, spare_counters_.end());
  }
  if (counter_blocks_.empty() || counters_cut_ == kCountersPerBlock) {
    Result<Memory> block = allocate_pinned(Bytes{kCounterStride * kCountersPerBlock},
                                           "no host memory for the counters of its streams");
    if (!block) return block.failure();
    counter_blocks_.push_back(block.value());
    counters_cut_ = 0;
  }
  const Memory& block = counter_blocks_.back();
  const size_t offset = kCounterStride * counters_cut_++;
  return Counter{new (block.host + offset) std::atomic<uint64_t>(0),  // NOLINT: never destroyed
                 block.address + offset, 0};
}

void CudaCore::give_counter(const Counter& counter) noexcept {
  if (forked()) return;
  try {
    const sync::Lock lock(counters_mutex_);
    spare_counters_.push_back(counter);
  } catch (const std::bad_alloc&) {  // it is not used again
  }
}

Result<CudaProgress*> CudaCore::make_progress() {
  Result<Counter> counter = take_counter();
  if (!counter) return counter.failure();
  auto made = std::make_unique<CudaProgress>();
  made->counter = counter.value().host;
  made->counter_address = counter.value().address;
  if (Failure failure =
          check(cu.cuStreamCreate(&made->stream, cu::CU_STREAM_NON_BLOCKING), "no stream")) {
    return failure;
  }
  add_progress(*made);
  streams_.push_back(std::move(made));
  return streams_.back().get();
}

Result<cu::CUstream> CudaCore::shared_stream() {
  cu::CUstream shared = shared_stream_.load();
  if (shared != nullptr) return shared;
  cu::CUstream made = nullptr;
  if (Failure failure = check(cu.cuStreamCreate(&made, cu::CU_STREAM_NON_BLOCKING), "no stream")) {
    return failure;
  }
  if (shared_stream_.compare_exchange_strong(shared, made)) return made;
  (void)cu.cuStreamDestroy(made);
  return shared;
}

Failure CudaCore::write_counter(cu::CUstream stream, const CudaProgress& progress,
                                uint64_t value) const {
  return check(
      has_memory_operations
          ? cu.cuStreamWriteValue64(stream, progress.counter_address, value,
                                    cu::CU_STREAM_WRITE_VALUE_DEFAULT)
          : cu.cuMemsetD32Async(progress.counter_address, static_cast<uint32_t>(value), 1, stream),
      "a stream cannot say how far it is");
}

Failure CudaCore::write_counter_aside(CudaProgress& progress, uint64_t value) const {
  constexpr std::string_view kWhat = "a stream cannot say how far it is";
  if (progress.written_after == nullptr) {
    cu::CUevent event = nullptr;
    if (Failure failure = check(cu.cuEventCreate(&event, cu::CU_EVENT_DISABLE_TIMING), kWhat)) {
      return failure;
    }
    progress.written_after = event;
  }
  if (progress.writer == nullptr) {
    cu::CUstream made = nullptr;
    if (Failure failure = check(cu.cuStreamCreate(&made, cu::CU_STREAM_NON_BLOCKING), kWhat)) {
      return failure;
    }
    progress.writer = made;
  }
  Failure failure = check(cu.cuEventRecord(progress.written_after, progress.stream), kWhat);
  if (!failure) {
    failure = check(cu.cuStreamWaitEvent(progress.writer, progress.written_after, 0), kWhat);
  }
  if (!failure) failure = write_counter(progress.writer, progress, value);
  if (!failure) progress.last_by_writer = value;
  return failure;
}

cu::CUresult CudaCore::synchronize(const CudaProgress& progress) const {
  const cu::CUresult result = cu.cuStreamSynchronize(progress.stream);
  if (result != cu::CUDA_SUCCESS || progress.writer == nullptr) return result;
  return cu.cuStreamSynchronize(progress.writer);
}

Failure CudaCore::make_wait(cu::CUstream stream, const CudaProgress& progress, uint64_t value,
                            std::string_view what) const {
  if (has_memory_operations) {
    return check(cu.cuStreamWaitValue64(stream, progress.counter_address, value,
                                        cu::CU_STREAM_WAIT_VALUE_GEQ),
                 what);
  }
  if (progress.event != nullptr)
    return check(cu.cuStreamWaitEvent(stream, progress.event, 0), what);
  // For all that the other stream has by now, which is more than is asked for.
  const Result<cu::CUevent> event = take_event(what);
  if (!event) return event.failure();
  Failure failure = check(cu.cuEventRecord(event.value(), progress.stream), what);
  if (!failure) failure = check(cu.cuStreamWaitEvent(stream, event.value(), 0), what);
  give_event(event.value());
  return failure;
}

Result<cu::CUevent> CudaCore::take_event(std::string_view what) const {
  {
    const sync::Lock lock(events_mutex_);
    if (!spare_events_.empty()) {
      const cu::CUevent spare = spare_events_.back();
      spare_events_.pop_back();
      return spare;
    }
  }
  cu::CUevent made = nullptr;
  if (Failure failure = check(cu.cuEventCreate(&made, cu::CU_EVENT_DISABLE_TIMING), what)) {
    return failure;
  }
  return made;
}

void CudaCore::give_event(cu::CUevent event) const noexcept {
  try {
    const sync::Lock lock(events_mutex_);
    spare_events_.push_back(event);
  } catch (const std::bad_alloc&) {
    (void)cu.cuEventDestroy(event);
  }
}

Result<CudaCore::Marked> CudaCore::mark(const std::shared_ptr<CudaCore>& core, cu::CUstream stream,
                                        std::string_view what) {
  Result<Counter> taken = core->take_counter();
  if (!taken) return taken.failure();
  Counter counter = taken.value();
  ++counter.last;
  // Goes with the last Point; its counter is then used again, with the next value.
  struct NativeMark final : CudaObject {
    NativeMark(const std::shared_ptr<CudaCore>& of, const Counter& written)
        : CudaObject(of), counter(written) {}
    ~NativeMark() override {
      give_back();
      core()->forget_mark(progress);
      core()->give_counter(counter);
    }
    void destroy_native() noexcept override {
      if (progress.event != nullptr) core()->give_event(progress.event);
    }
    Counter counter;
    CudaProgress progress;
  };
  auto made = std::make_shared<NativeMark>(core, taken.value());
  CudaProgress& progress = made->progress;
  progress.is_native = true;
  progress.stream = stream;
  progress.counter = counter.host;
  progress.counter_address = counter.address;
  progress.seen.store(counter.last - 1);
  if (!core->has_memory_operations) {
    const Result<cu::CUevent> event = core->take_event(what);
    if (!event) return event.failure();
    progress.event = event.value();
    if (Failure failure = core->check(core->cu.cuEventRecord(progress.event, stream), what)) {
      return failure;
    }
  }
  {
    const sync::LeafLock lock(core->marks_mutex_);
    core->marks_.push_back(&progress);
  }
  core->note_shared_counter();
  if (Failure failure = core->write_counter(stream, progress, counter.last)) return failure;
  made->counter.last = counter.last;
  progress.started.store(counter.last);
  return Marked{std::shared_ptr<CudaProgress>(made, &progress), counter.last};
}

bool CudaCore::others_are_done() const noexcept {
  const sync::LeafLock lock(marks_mutex_);
  return std::all_of(marks_.begin(), marks_.end(), [](const CudaProgress* mark) {
    const auto now = static_cast<uint32_t>(mark->counter->load(std::memory_order_acquire));
    return static_cast<int32_t>(now - static_cast<uint32_t>(mark->started.load())) >= 0;
  });
}

void CudaCore::forget_mark(const CudaProgress& progress) noexcept {
  const sync::LeafLock lock(marks_mutex_);
  std::erase(marks_, &progress);
}

}  // namespace holdfast::hal
