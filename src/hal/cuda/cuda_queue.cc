#include "holdfast/hal/cuda/cuda_queue.h"

#include <fmt/format.h>

#include "holdfast/hal/cuda/cuda_encoder.h"

namespace holdfast::hal {
namespace {

Failure check_copies_only(const CudaWork& work) {
  for (const Command& command : work.commands()) {
    if (command.kind != CommandKind::dispatch && command.kind != CommandKind::native) continue;
    return Failure(ErrorCode::usage,
                   fmt::format("{} has a {} command, and was submitted to a queue that copies and "
                               "fills alone",
                               work.describe(), to_string(command.kind)));
  }
  return {};
}

}  // namespace

// Where a driver has no memory operations, a stream waits for another by an event that is recorded
// there at that moment: so for all that the other has, which is more than is asked for.
class CudaQueue::WaitEvent final : private CudaObject {
 public:
  explicit WaitEvent(const std::shared_ptr<CudaCore>& core) : CudaObject(core) {}
  ~WaitEvent() override { give_back(); }

  Failure wait(cu::CUstream waiting, cu::CUstream for_this, std::string_view what) {
    const cu::Calls& cu = core()->cu;
    if (event_ == nullptr) {
      if (Failure failure =
              core()->check(cu.cuEventCreate(&event_, cu::CU_EVENT_DISABLE_TIMING), what)) {
        event_ = nullptr;
        return failure;
      }
    }
    if (Failure failure = core()->check(cu.cuEventRecord(event_, for_this), what)) return failure;
    return core()->check(cu.cuStreamWaitEvent(waiting, event_, 0), what);
  }

 private:
  void destroy_native() noexcept override {
    if (event_ == nullptr) return;
    const CudaCore::Current current(*core());
    (void)core()->cu.cuEventDestroy(event_);
  }

  cu::CUevent event_ = nullptr;
};

CudaQueue::CudaQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
                     const std::shared_ptr<CudaCore>& core, CudaProgress& progress, bool computes,
                     std::shared_ptr<GpuWatcher> watcher,
                     std::shared_ptr<std::atomic<uint64_t>> counter)
    : GpuQueue(device, index, std::move(timeline), core, std::move(watcher), std::move(counter)),
      core_(core),
      progress_(progress),
      computes_(computes),
      graphs_(core) {
  if (!core->has_memory_operations) wait_event_ = std::make_unique<WaitEvent>(core);
}

CudaQueue::~CudaQueue() = default;

Failure CudaQueue::await(const Work& work) {
  for (const Wait& wait : work.waits) {
    const GpuTimeline* const timeline = own(wait);
    // Its own queue's order needs no waiting.
    if (timeline == nullptr || timeline == &counter() || !wait.point.pending()) continue;
    const auto& other = static_cast<const CudaProgress&>(timeline->progress());
    const std::string what =
        fmt::format("{} cannot wait for {}", name(), wait.point.timeline->name());
    Failure failure =
        wait_event_ != nullptr
            ? wait_event_->wait(progress_.stream, other.stream, what)
            : core_->check(
                  core_->cu.cuStreamWaitValue64(progress_.stream, other.counter_address,
                                                wait.point.value.value,
                                                cu::CU_STREAM_WAIT_VALUE_GEQ),
                  what);
    if (failure) return failure;
  }
  return {};
}

Failure CudaQueue::write_counter(uint64_t value) {
  const cu::Calls& cu = core_->cu;
  const std::string_view what = "a stream cannot say how far it is";
  if (core_->has_memory_operations) {
    return core_->check(cu.cuStreamWriteValue64(progress_.stream, progress_.counter_address, value,
                                                cu::CU_STREAM_WRITE_VALUE_DEFAULT),
                        what);
  }
  return core_->check(cu.cuMemsetD32Async(progress_.counter_address, static_cast<uint32_t>(value),
                                          1, progress_.stream),
                      what);
}

Failure CudaQueue::signal(const Work& work) {
  const TimelineValue value = work.point.value;
  {
    const sync::LeafLock lock(progress_.mutex);
    auto& given = progress_.given;
    while (!given.empty() && counter().was_seen({given.front().value})) given.pop_front();
    given.push_back({value.value, &work});
  }
  if (const Failure refused = write_counter(value.value)) {
    // The stream has the work and cannot say when it is done, so the host finds out, and says it.
    const Failure lost = core_->check(core_->cu.cuStreamSynchronize(progress_.stream),
                                      "a stream can neither be asked nor waited for");
    if (lost) {
      return core_->lose(Failure(ErrorCode::device_lost, lost.message()));
    }
    progress_.counter->store(value.value, std::memory_order_release);
  }
  counter().note_started(value);
  if (is_immediate()) counter().wait_unseen(value);
  return {};
}

Failure CudaQueue::hand_over_empty(const Work& work) {
  const CudaCore::Current current(*core_);
  if (Failure failure = await(work)) return failure;
  return signal(work);
}

bool CudaQueue::launch_as_graph(const CudaWork& work) {
  std::optional<CudaGraphShape> shape = graphs_.shape_of(work);
  if (!shape) return false;
  CudaGraph* const graph = graphs_.take(work, std::move(*shape), counter());
  if (graph == nullptr) return false;
  Failure failure = graph->set(work);
  if (!failure) failure = graph->launch(progress_.stream, work);
  if (failure) {
    graphs_.discard(*graph);
    return false;
  }
  graphs_.launched(*graph, work.work().point.value);
  return true;
}

Failure CudaQueue::hand_over(const Work& work, std::span<const Command* const> skipped,
                             ListFailure known) {
  const CudaWork cuda(work);
  if (!computes_) {
    if (Failure refused = check_copies_only(cuda)) return refused;
  }
  const CudaCore::Current current(*core_);
  if (Failure failure = await(work)) return failure;
  const bool whole = work.only == nullptr && skipped.empty();
  CudaLaunched launched;
  if (!core_->uses_graphs || !whole || !launch_as_graph(cuda)) {
    const Translating scope(*this, work);
    launched = launch(*core_, cuda, progress_.stream, skipped);
  }
  // The driver's refusal of a list of which it has nothing; else the list ends as a failed one.
  if (launched.failure && !launched.any && launched.failure.code() != ErrorCode::execution) {
    return launched.failure;
  }
  if (launched.failure) known = {launched.failure, nullptr};
  // A native callback takes its time, and may close the device.
  if (!known && core_->stopped()) known = {core_->stop_cause(), nullptr};
  if (!known) return signal(work);
  return failing(work, std::move(known), [&] { return signal(work); });
}

}  // namespace holdfast::hal
