#include "holdfast/hal/validate/validate_queue.h"

#include "holdfast/base/leave_alive.h"
#include "holdfast/hal/validate/validation_model.h"

namespace holdfast::hal {

ValidateTimeline::ValidateTimeline(Ref<Timeline> inner, uint32_t queue,
                                   std::shared_ptr<ValidationModel> model)
    : Timeline(inner->device(), inner->name()),
      inner_(std::move(inner)),
      queue_(queue),
      model_(std::move(model)) {}

PointState ValidateTimeline::tell(TimelineValue value, PointState state) const noexcept {
  if (state == PointState::pending || value.value <= told_.load(std::memory_order_acquire)) {
    return state;
  }
  // A closed device answers for values too that no list ever had.
  if (!was_issued(value)) return state;
  model_->host_saw(queue_, value);
  uint64_t told = told_.load(std::memory_order_relaxed);
  while (told < value.value &&
         !told_.compare_exchange_weak(told, value.value, std::memory_order_release)) {
  }
  return state;
}

PointState ValidateTimeline::query(TimelineValue value) const noexcept {
  return tell(value, inner_->query(value));
}

Failure ValidateTimeline::failure(TimelineValue value) const {
  Failure cause = inner_->failure(value);
  if (cause) tell(value, PointState::failed);
  return cause;
}

std::shared_ptr<const Damage> ValidateTimeline::damage(TimelineValue value) const {
  return inner_->damage(value);
}

PointState ValidateTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  const PointState state = tell(value, inner_->wait(value, deadline));
  model_->let_go();
  return state;
}

Point inner_point(const ValidateTimelines& ours, const Point& point) {
  for (const Ref<ValidateTimeline>& timeline : ours) {
    if (timeline.get() == point.timeline.get()) return {timeline->inner(), point.value};
  }
  return point;
}

ValidateQueue::ValidateQueue(Ref<Queue> inner, std::shared_ptr<const ValidateTimelines> timelines,
                             std::shared_ptr<std::atomic<uint64_t>> counter,
                             std::shared_ptr<ValidationModel> model)
    : Queue(inner->device(), inner->index(), inner->name(), (*timelines)[inner->index()],
            std::move(counter)),
      inner_(std::move(inner)),
      timelines_(std::move(timelines)),
      model_(std::move(model)) {}

ValidateQueue::~ValidateQueue() {
  { const Retired finished = retire(); }
  model_->let_go();
  forget_resolved();
  // The device may look at the rest whenever it likes. Moving a deque leaves its elements in place.
  if (!handed_.empty()) leave_alive(std::make_shared<std::deque<Handed>>(std::move(handed_)));
}

void ValidateQueue::forget_resolved() {
  while (!handed_.empty() && !handed_.front().work.point.pending()) handed_.pop_front();
}

Failure ValidateQueue::execute(const Work& work) {
  forget_resolved();
  model_->let_go();
  if (Failure condemned = model_->submit(index(), work)) return condemned;
  Handed& handed = handed_.emplace_back();
  handed.waits.reserve(work.waits.size());
  for (const Wait& wait : work.waits) {
    handed.waits.push_back({inner_point(*timelines_, wait.point), wait.kind});
  }
  const Ref<Timeline>& timeline = (*timelines_)[index()]->inner();
  handed.work = {work.list,    work.only,  {timeline, work.point.value},
                 handed.waits, work.queue, work.awaited};
  if (Failure refused = hand_on(*inner_, handed.work)) {
    model_->refused(index(), work);
    handed_.pop_back();
    return refused;
  }
  timeline->note_issued(work.point.value);
  return {};
}

}  // namespace holdfast::hal
