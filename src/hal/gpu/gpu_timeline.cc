#include "holdfast/hal/gpu/gpu_timeline.h"

#include "holdfast/base/sync/thread.h"

namespace holdfast::hal {
namespace {

// So long a thread looks at the counter before it sleeps: waking it costs more than short kernels
// take (bench rows *_readback).
constexpr sync::Duration kSpin = std::chrono::microseconds(50);
// A sleeping waiter looks this often whether the device was closed or lost.
constexpr sync::Duration kAskDriverAgain = std::chrono::milliseconds(5);

}  // namespace

const ListFailure* GpuTimeline::find(uint64_t value) const noexcept {
  const ListFailure* const known = failures_.find(value);
  return known != nullptr ? known : progress_.outcomes.find(value);
}

PointState GpuTimeline::answer(uint64_t value) const noexcept {
  return find(value) != nullptr ? PointState::failed : PointState::reached;
}

PointState GpuTimeline::query(TimelineValue value) const noexcept {
  if (progress_.seen.load(std::memory_order_acquire) >= value.value) return answer(value.value);
  if (core_->look(progress_) >= value.value) return answer(value.value);
  if (!core_->try_end()) return PointState::pending;
  // What was seen by the end is all there will ever be.
  return progress_.seen.load(std::memory_order_acquire) >= value.value ? answer(value.value)
                                                                       : PointState::failed;
}

Failure GpuTimeline::failure(TimelineValue value) const {
  if (query(value) != PointState::failed) return {};
  const ListFailure* const found = find(value.value);
  return found != nullptr ? found->cause : core_->end_cause();
}

std::shared_ptr<const Damage> GpuTimeline::damage(TimelineValue value) const {
  if (query(value) != PointState::failed) return nullptr;
  const ListFailure* const found = find(value.value);
  return found != nullptr ? found->damage : nullptr;
}

PointState GpuTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  const auto resolved = [&] { return query(value) != PointState::pending; };
  const sync::Deadline spin = earlier(deadline, sync::Deadline::after(kSpin));
  for (unsigned attempt = 0; !resolved(); ++attempt) {
    if (deadline.passed()) break;
    if (!spin.passed()) {
      sync::relax(attempt);
      continue;
    }
    const sync::Deadline slice = earlier(deadline, sync::Deadline::after(kAskDriverAgain));
    if (!core_->sleep(progress_, value.value, slice.when() - sync::now())) sync::relax(attempt);
  }
  return query(value);
}

void GpuTimeline::wait_unseen(TimelineValue value) const {
  // The device cannot end while a list is being handed over, so its values fail only afterwards.
  while (query(value) == PointState::pending && !core_->is_dead()) {
    core_->sleep(progress_, value.value, std::chrono::seconds(1));
  }
}

void GpuTimeline::will_fail(TimelineValue value, ListFailure failure) {
  const sync::LeafLock lock(mutex_);
  failures_.add_locked(value.value, std::move(failure));
}

void GpuTimeline::withdraw(TimelineValue value) {
  const sync::LeafLock lock(mutex_);
  failures_.withdraw_locked(value.value);
}

ListFailure GpuTimeline::known_failure(TimelineValue value) const {
  const ListFailure* const found = find(value.value);
  return found != nullptr ? *found : ListFailure{failure(value), nullptr};
}

}  // namespace holdfast::hal
