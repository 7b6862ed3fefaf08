#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/hal/failed_values.h"
#include "holdfast/hal/timeline.h"
#include "holdfast/hal/unique_fd.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// A timeline in host memory: the CPU device's queues advance one each, and users signal their own.
// query() is an atomic load. Thread-safe.
class HostTimeline final : public Timeline {
 public:
  HostTimeline(DeviceId device, std::string name) : Timeline(device, std::move(name)) {}

  PointState query(TimelineValue value) const noexcept override;
  Failure failure(TimelineValue value) const override;
  std::shared_ptr<const Damage> damage(TimelineValue value) const override;
  PointState wait(TimelineValue value, sync::Deadline deadline) const override;

  // Resolves every value up to this one as reached. Going back is a UsageError.
  void signal(TimelineValue value);
  // Resolves smaller values as reached and this one as failed. Without Damage, everything its list
  // writes is bad.
  void fail(TimelineValue value, Failure cause, std::shared_ptr<const Damage> damage = nullptr);
  // Every value not resolved yet, present or future, fails with this cause; later calls of signal
  // and fail do nothing. The first cause stays.
  void fail_all_pending(Failure cause);

  TimelineValue resolved() const noexcept { return {resolved_.load(std::memory_order_acquire)}; }
  // A descriptor that becomes readable when the value is resolved.
  Result<UniqueFd> export_value(TimelineValue value);

 private:
  struct Exported {
    TimelineValue value;
    UniqueFd descriptor;
  };
  void resolve_locked(uint64_t value) HOLDFAST_REQUIRES(mutex_);
  // Identifies this timeline to a simulation.
  uint64_t schedule_object() const noexcept;
  void wake_locked() HOLDFAST_REQUIRES(mutex_);

  std::atomic<uint64_t> resolved_{0};
  FailedValues failures_;
  // Set once, by fail_all_pending, after its cause.
  std::atomic<bool> ended_{false};
  Failure end_cause_;
  mutable std::atomic<uint32_t> waiters_{0};

  mutable sync::Mutex mutex_;  // guards changes of the above, and:
  mutable sync::Condition resolved_changed_;
  std::vector<Exported> exported_ HOLDFAST_GUARDED_BY(mutex_);
};

// A descriptor that becomes readable once the Point is resolved. Only for Points that no device
// owns; a failure for others.
Result<UniqueFd> export_host_point(const Point& point);

// A timeline with one value, reached once a file descriptor is readable.
class DescriptorTimeline final : public Timeline {
 public:
  DescriptorTimeline(UniqueFd descriptor, std::string name);
  // Another descriptor for the same event.
  Result<UniqueFd> export_value() const;
  PointState query(TimelineValue value) const noexcept override;
  Failure failure(TimelineValue value) const override;
  PointState wait(TimelineValue value, sync::Deadline deadline) const override;

 private:
  PointState look(TimelineValue value, int timeout_ms) const noexcept;
  UniqueFd descriptor_;
  Failure unreachable_;  // set if the descriptor cannot become readable
  mutable std::atomic<bool> reached_{false};
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
