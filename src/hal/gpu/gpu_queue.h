#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/hal/gpu/gpu_timeline.h"
#include "holdfast/hal/list_damage.h"
#include "holdfast/hal/queue.h"

namespace holdfast::hal {

class GpuWatcher;

// Hands lists to a driver, in order. A list that has to wait for the host is kept back, and all
// behind it. Whether a list fails is known when it is handed over, since what the driver has fails
// only with the whole device; except for lists whose kernels report failures (GpuOutcomes). Lists
// that wait for such a list's data are kept back until it has ended.
class GpuQueue : public Queue {
 public:
  // From now on execute() answers that the queue is closed.
  void refuse_new_work();
  // Whether every list given so far is resolved.
  bool wait_idle(sync::Deadline deadline) const;
  // Whether the calling task is a native callback of a list that this queue translates.
  bool is_translating_here() const noexcept;

  // The watcher's part. Hands over what was kept back, as far as it may start; adds to `waits_for`
  // what the first that may not waits for outside the device. Whether it handed over any.
  bool start_kept_back(std::vector<Point>& waits_for);

 protected:
  // `watcher` is null for an immediate queue, which keeps nothing back.
  GpuQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
           std::shared_ptr<GpuCore> core, std::shared_ptr<GpuWatcher> watcher,
           std::shared_ptr<std::atomic<uint64_t>> counter);

  Failure execute(const Work& work) final;

  // The backend's part, with the right to start. Both hand the work's value over to the driver, to
  // be reached after the Points that it waits for, and call note_started(). A failure means that
  // nothing of the work will run. Once the driver has it the work may be gone.

  // With the list's commands, except for those in `skipped`, which come in recorded order. `known`:
  // how the list fails although the others run; none: not at all. A list that turns out to fail
  // while it is translated is handed over as a failed one.
  virtual Failure hand_over(const Work& work, std::span<const Command* const> skipped,
                            ListFailure known) = 0;
  // Without any command.
  virtual Failure hand_over_empty(const Work& work) = 0;

  // Calls `hand`, after which the work's value fails once the driver gets there. If the driver does
  // not take it, the value is free again.
  template <typename Hand>
  Failure failing(const Work& work, ListFailure failure, const Hand& hand) {
    const TimelineValue value = work.point.value;
    counter_->will_fail(value, std::move(failure));
    try {
      Failure refused = hand();
      if (refused) counter_->withdraw(value);
      return refused;
    } catch (...) {
      counter_->withdraw(value);
      throw;
    }
  }
  Failure hand_over_failed(const Work& work, ListFailure failure) {
    return failing(work, std::move(failure), [&] { return hand_over_empty(work); });
  }

  // For the scope in which the work's callbacks may be called.
  class Translating {
   public:
    Translating(GpuQueue& queue, const Work& work) noexcept : queue_(queue) {
      queue_.translating_for_.store(work.queue);
    }
    ~Translating() { queue_.translating_for_.store(nullptr); }
    Translating(const Translating&) = delete;
    Translating& operator=(const Translating&) = delete;

   private:
    GpuQueue& queue_;
  };

  // What the waits of the work hand on to it. That is known before the work starts.
  void inherit(const Work& work, ListDamage& damage) const;

  // Null unless the wait is for a counter that this device, or a native stream on it, writes.
  const GpuTimeline* own(const Wait& wait) const noexcept;
  bool is_immediate() const noexcept { return watcher_ == nullptr; }
  GpuTimeline& counter() const noexcept { return *counter_; }
  const Ref<GpuTimeline>& counter_ref() const noexcept { return counter_; }

 private:
  // Whether what it waits for is resolved, or will be whatever the host does and is known to end
  // well or not.
  bool may_start(const Work& work) const;
  bool may_start_after(const Wait& wait) const;
  Failure keep_back(const Work& work);
  Failure start(const Work& work);

  Ref<GpuTimeline> counter_;  // the queue's timeline, as what it is
  std::shared_ptr<GpuCore> core_;
  std::shared_ptr<GpuWatcher> watcher_;

  // Of the list that is being translated: the queue that its user knows. Compared, never
  // dereferenced.
  std::atomic<const Queue*> translating_for_{nullptr};

  std::atomic<uint64_t> accepted_{0};  // the value of the newest list accepted

  mutable sync::LeafMutex mutex_;  // guards all below
  std::deque<const Work*> kept_back_ HOLDFAST_GUARDED_BY(mutex_);
  bool refusing_ HOLDFAST_GUARDED_BY(mutex_) = false;
};

}  // namespace holdfast::hal
