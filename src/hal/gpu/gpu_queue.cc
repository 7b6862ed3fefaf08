#include "holdfast/hal/gpu/gpu_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "holdfast/hal/gpu/gpu_watcher.h"
#include "holdfast/hal/program.h"

namespace holdfast::hal {

GpuQueue::GpuQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
                   std::shared_ptr<GpuCore> core, std::shared_ptr<GpuWatcher> watcher,
                   std::shared_ptr<std::atomic<uint64_t>> counter)
    : Queue(device, index, timeline->name(), timeline, std::move(counter)),
      counter_(std::move(timeline)),
      core_(std::move(core)),
      watcher_(std::move(watcher)) {}

const GpuTimeline* GpuQueue::own(const Wait& wait) const noexcept {
  if (!wait.point.timeline) return nullptr;
  // One of no device may still be a counter of this one: that of a native stream.
  const DeviceId of = wait.point.timeline->device();
  if (of && of != device()) return nullptr;
  const auto* const ours = dynamic_cast<const GpuTimeline*>(wait.point.timeline.get());
  return ours != nullptr && ours->is_of(*core_) ? ours : nullptr;
}

bool GpuQueue::may_start_after(const Wait& wait) const {
  const GpuTimeline* const timeline = own(wait);
  if (timeline == nullptr) return !wait.point.pending();
  if (timeline->started() < wait.point.value) return false;
  // Asking settles what is over: nobody else may ask.
  return wait.kind != WaitKind::data || !timeline->is_open(wait.point.value) ||
         !wait.point.pending();
}

bool GpuQueue::may_start(const Work& work) const {
  return std::ranges::all_of(work.waits, [this](const Wait& w) { return may_start_after(w); });
}

void GpuQueue::inherit(const Work& work, ListDamage& damage) const {
  for (size_t i = 0; i < work.waits.size(); ++i) {
    const Wait& wait = work.waits[i];
    if (wait.kind != WaitKind::data || !wait.point.timeline) continue;
    const GpuTimeline* const timeline = own(wait);
    const ListFailure failure = timeline != nullptr
                                    ? timeline->known_failure(wait.point.value)
                                    : ListFailure{wait.point.failure(), wait.point.damage()};
    if (failure) damage.wait_failed(i, failure);
  }
}

Failure GpuQueue::execute(const Work& work) {
  try {
    const GpuCore::Use use(*core_);
    const GpuCore::Start right(*core_);
    if (!right) return core_->stop_cause();
    bool at_once = use && may_start(work);
    {
      const sync::LeafLock lock(mutex_);
      if (refusing_ || !use) {
        return Failure(ErrorCode::closed, fmt::format("{} is closed", name()));
      }
      // Only the task that has the turn keeps lists back: what is so now stays so below.
      at_once = at_once && kept_back_.empty();
    }
    if (!at_once) return keep_back(work);
    const TimelineValue value = work.point.value;
    Failure failure = start(work);
    if (!failure) accepted_.store(value.value);
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure(ErrorCode::out_of_memory,
                   fmt::format("{} has no host memory to translate a list", name()));
  }
}

Failure GpuQueue::keep_back(const Work& work) {
  if (!watcher_) {
    return Failure(ErrorCode::usage,
                   fmt::format("{} runs lists at once, and {} waits for what is not resolved",
                               name(), work.list->describe()));
  }
  if (Failure failure = watcher_->begin()) return failure;
  {
    const sync::LeafLock lock(mutex_);
    kept_back_.push_back(&work);
    accepted_.store(work.point.value.value);
  }
  watcher_->wake();
  return {};
}

bool GpuQueue::start_kept_back(std::vector<Point>& waits_for) {
  bool started = false;
  for (;;) {
    // While the device cannot end, what is kept back stays as it is.
    const GpuCore::Start right(*core_);
    if (!right) return started;
    const Work* work = nullptr;
    {
      const sync::LeafLock lock(mutex_);
      if (kept_back_.empty()) return started;
      work = kept_back_.front();
    }
    if (!may_start(*work)) {
      const size_t before = waits_for.size();
      for (const Wait& wait : work->waits) {
        const GpuTimeline* const timeline = own(wait);
        const bool outside = timeline == nullptr || timeline->is_open(wait.point.value);
        if (outside && wait.point.pending()) waits_for.push_back(wait.point);
      }
      // What was pending a moment ago may have been resolved meanwhile.
      if (waits_for.size() == before && may_start(*work)) continue;
      return started;
    }
    Failure failure;
    try {
      failure = start(*work);
      // It was accepted, so it has to come to an end: if not well, then as a failure.
      if (failure) {
        ListDamage damage(*work);
        inherit(*work, damage);
        const Failure cause = damage.finish().cause;
        failure = hand_over_failed(*work, {cause ? cause : failure, nullptr});
      }
    } catch (const std::bad_alloc&) {
      failure = Failure(ErrorCode::out_of_memory, "no host memory");
    }
    if (failure) {
      core_->stop(Failure(ErrorCode::device_lost,
                          fmt::format("{} takes no work any more, not even to say that a list "
                                      "failed: {}",
                                      name(), failure.message())));
      return started;
    }
    const sync::LeafLock lock(mutex_);
    kept_back_.pop_front();
    started = true;
  }
}

Failure GpuQueue::start(const Work& work) {
  ListDamage damage(work);
  inherit(work, damage);
  if (damage.forbids_all()) return hand_over_failed(work, damage.finish());
  if (!damage.any()) return work.list->empty() ? hand_over_empty(work) : hand_over(work, {}, {});
  // Bytes that the work reads may be bad: what does not depend on them is started.
  const Program* const program = work.list->program();
  std::vector<const Command*> skipped;
  for (const Command& command : program != nullptr ? program->list() : *work.list) {
    if (!damage.enter(command)) skipped.push_back(&command);
  }
  return hand_over(work, skipped, damage.finish());
}

void GpuQueue::refuse_new_work() {
  const sync::LeafLock lock(mutex_);
  refusing_ = true;
}

bool GpuQueue::wait_idle(sync::Deadline deadline) const {
  return counter_->wait({accepted_.load()}, deadline) != PointState::pending;
}

bool GpuQueue::is_translating_here() const noexcept {
  return executing() != nullptr && executing() == translating_for_.load();
}

}  // namespace holdfast::hal
