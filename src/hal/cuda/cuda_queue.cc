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

CudaQueue::CudaQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
                     const std::shared_ptr<CudaCore>& core, CudaProgress& progress, bool computes,
                     std::shared_ptr<GpuWatcher> watcher,
                     std::shared_ptr<std::atomic<uint64_t>> counter)
    : GpuQueue(device, index, std::move(timeline), core, std::move(watcher), std::move(counter)),
      core_(core),
      progress_(progress),
      computes_(computes),
      graphs_(core) {}

CudaQueue::~CudaQueue() = default;

Failure CudaQueue::await(const Work& work) {
  for (const Wait& wait : work.waits) {
    const GpuTimeline* const timeline = own(wait);
    // Its own queue's order needs no waiting.
    if (timeline == nullptr || timeline == &counter() || !wait.point.pending()) continue;
    const auto& other = static_cast<const CudaProgress&>(timeline->progress());
    if (Failure failure = core_->make_wait(progress_.stream, other, wait.point.value.value,
                                           "a queue cannot wait for another")) {
      return failure;
    }
  }
  return {};
}

bool CudaQueue::writes_aside(TimelineValue value) const {
  // A write on the stream itself keeps the next list waiting for 2.5 us on an H200 (bench rows
  // operation/multiply_scalar); one aside costs the host a little, and comes later. So it is for
  // queues whose lists have piled up.
  constexpr uint64_t kPile = 4;
  if (!core_->has_memory_operations || is_immediate()) return false;
  const uint64_t now = progress_.counter->load(std::memory_order_acquire);
  return now < progress_.last_by_writer || value.value - now > kPile;
}

Failure CudaQueue::signal(const Work& work) {
  const TimelineValue value = work.point.value;
  {
    const sync::LeafLock lock(progress_.mutex);
    auto& given = progress_.given;
    while (!given.empty() && counter().was_seen({given.front().value})) given.pop_front();
    given.push_back({value.value, &work});
  }
  if (writes_aside(value) ? core_->write_counter_aside(progress_, value.value)
                          : core_->write_counter(progress_.stream, progress_, value.value)) {
    // The stream has the work and cannot say when it is done, so the host finds out, and says it.
    const Failure lost =
        core_->check(core_->synchronize(progress_), "a stream can neither be asked nor waited for");
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
  if (Failure failure = current.failure()) return failure;
  if (Failure failure = await(work)) return failure;
  return signal(work);
}

Failure CudaQueue::hand_over(const Work& work, std::span<const Command* const> skipped,
                             ListFailure known) {
  const CudaWork cuda(work);
  if (!computes_) {
    if (Failure refused = check_copies_only(cuda)) return refused;
  }
  const CudaCore::Current current(*core_);
  if (Failure failure = current.failure()) return failure;
  if (Failure failure = await(work)) return failure;
  try {
    return launch_and_signal(cuda, skipped, std::move(known));
  } catch (...) {
    // The list goes back to the caller, who may drop what the stream has been given of it.
    (void)core_->cu.cuStreamSynchronize(progress_.stream);
    throw;
  }
}

Failure CudaQueue::launch_and_signal(const CudaWork& cuda, std::span<const Command* const> skipped,
                                     ListFailure known) {
  const Work& work = cuda.work();
  ++lists_;
  // Of a graph nobody can tell how long each kernel took.
  const bool one_launch =
      core_->uses_graphs && work.only == nullptr && skipped.empty() && !core_->profiler.enabled();
  CudaLaunched launched;
  if (!one_launch || !graphs_.launch(cuda, progress_.stream, counter())) {
    const Translating scope(*this, work);
    launched = launch(*core_, cuda, progress_.stream, skipped);
  }
  if (!launched.timed.empty()) {
    core_->profiler.add(*core_, progress_, work.point.value.value, std::move(launched.timed));
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
