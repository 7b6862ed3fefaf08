#include "holdfast/hal/relay_timeline.h"

#include "holdfast/hal/damage.h"

namespace holdfast::hal {

PointState RelayTimeline::answer(PointState state) const noexcept {
  if (state != PointState::failed) return state;
  const std::shared_ptr<const Damage> damage = point_.damage();
  const bool good = damage && !damage->find(allocation_, bytes_);
  return good ? PointState::reached : PointState::failed;
}

PointState RelayTimeline::query(TimelineValue value) const noexcept {
  return value.value == 0 ? PointState::reached : answer(point_.query());
}

Failure RelayTimeline::failure(TimelineValue value) const {
  if (query(value) != PointState::failed) return {};
  const std::shared_ptr<const Damage> damage = point_.damage();
  return damage ? damage->find(allocation_, bytes_) : point_.failure();
}

PointState RelayTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  if (value.value == 0 || !point_.timeline) return query(value);
  return answer(point_.timeline->wait(point_.value, deadline));
}

}  // namespace holdfast::hal
