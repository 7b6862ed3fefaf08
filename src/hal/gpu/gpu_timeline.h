#pragma once

#include "holdfast/hal/failed_values.h"
#include "holdfast/hal/gpu/gpu_core.h"
#include "holdfast/hal/timeline.h"

namespace holdfast::hal {

// A counter that the device writes. query() is a load for what was seen before, else the core's
// way to read the counter.
class GpuTimeline final : public Timeline {
 public:
  // The progress lives as long as the core or, if it belongs to the timeline alone, as `owner`.
  GpuTimeline(DeviceId device, std::string name, std::shared_ptr<GpuCore> core,
              GpuProgress& progress, std::shared_ptr<const void> owner = nullptr)
      : Timeline(device, std::move(name)),
        core_(std::move(core)),
        progress_(progress),
        owner_(std::move(owner)) {}

  PointState query(TimelineValue value) const noexcept override;
  Failure failure(TimelineValue value) const override;
  std::shared_ptr<const Damage> damage(TimelineValue value) const override;
  PointState wait(TimelineValue value, sync::Deadline deadline) const override;
  // Sleeps in the driver, and lets no scheduler know. Returns early where the device is dead.
  void wait_unseen(TimelineValue value) const;

  // Whether the value is known to be resolved, without asking the driver.
  bool was_seen(TimelineValue value) const noexcept {
    return progress_.seen.load(std::memory_order_acquire) >= value.value;
  }

  const GpuProgress& progress() const noexcept { return progress_; }
  bool is_of(const GpuCore& core) const noexcept { return core_.get() == &core; }
  // Up to which value the driver has the lists; these come to an end whatever the host does.
  TimelineValue started() const noexcept {
    return {progress_.started.load(std::memory_order_acquire)};
  }
  void note_started(TimelineValue value) noexcept {
    progress_.started.store(value.value, std::memory_order_release);
  }
  // Before the value is handed to the driver: once the counter is there, it has failed.
  void will_fail(TimelineValue value, ListFailure failure);
  void withdraw(TimelineValue value);
  // Before the value is handed to the driver: `read` says how it ended, once the counter is there.
  void will_tell(TimelineValue value, GpuOutcomes::Read read) {
    core_->expect(progress_, value.value, std::move(read));
  }
  void withdraw_telling(TimelineValue value) { core_->withdraw(progress_, value.value); }
  // Whether the value may yet turn out to have failed by itself.
  bool is_open(TimelineValue value) const { return core_->is_open(progress_, value.value); }
  // What is known of the value, resolved or not.
  ListFailure known_failure(TimelineValue value) const;

 private:
  const ListFailure* find(uint64_t value) const noexcept;
  PointState answer(uint64_t value) const noexcept;

  std::shared_ptr<GpuCore> core_;
  GpuProgress& progress_;
  std::shared_ptr<const void> owner_;
  FailedValues failures_;
  sync::LeafMutex mutex_;  // guards changes of failures_
};

}  // namespace holdfast::hal
