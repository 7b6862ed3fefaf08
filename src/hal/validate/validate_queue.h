#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/hal/queue.h"

namespace holdfast::hal {

class ValidationModel;

// An inner queue's timeline, as users see it: tells the model what the host has seen. Values are
// those of the inner one.
class ValidateTimeline final : public Timeline {
 public:
  ValidateTimeline(Ref<Timeline> inner, uint32_t queue, std::shared_ptr<ValidationModel> model);

  PointState query(TimelineValue value) const noexcept override;
  Failure failure(TimelineValue value) const override;
  std::shared_ptr<const Damage> damage(TimelineValue value) const override;
  PointState wait(TimelineValue value, sync::Deadline deadline) const override;

  const Ref<Timeline>& inner() const noexcept { return inner_; }

 private:
  PointState tell(TimelineValue value, PointState state) const noexcept;

  Ref<Timeline> inner_;
  uint32_t queue_;
  std::shared_ptr<ValidationModel> model_;
  mutable std::atomic<uint64_t> told_{0};  // the newest value that the model knows to be seen
};

// The timelines of one ValidateDevice, by queue.
using ValidateTimelines = std::vector<Ref<ValidateTimeline>>;
// The inner device's name for the Point; other Points stay as they are.
Point inner_point(const ValidateTimelines& ours, const Point& point);

// Checks each list against the model before the inner queue gets it.
class ValidateQueue final : public Queue {
 public:
  ValidateQueue(Ref<Queue> inner, std::shared_ptr<const ValidateTimelines> timelines,
                std::shared_ptr<std::atomic<uint64_t>> counter,
                std::shared_ptr<ValidationModel> model);
  ~ValidateQueue() override;

 protected:
  Failure execute(const Work& work) override;

 private:
  // What the inner queue was given, and may look at until its value is resolved.
  struct Handed {
    std::vector<Wait> waits;
    Work work;
  };
  void forget_resolved();

  Ref<Queue> inner_;
  std::shared_ptr<const ValidateTimelines> timelines_;
  std::shared_ptr<ValidationModel> model_;
  std::deque<Handed> handed_;  // guarded by having the turn
};

}  // namespace holdfast::hal
