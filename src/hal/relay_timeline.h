#pragma once

#include "holdfast/hal/timeline.h"

namespace holdfast::hal {

// A Point of one device in a form that lists of every device may wait for: this timeline belongs to
// none. Each of its values resolves with that Point. It fails where the Point left some of the
// given bytes bad, with their cause, and is reached otherwise. Thread-safe.
class RelayTimeline : public Timeline {
 public:
  RelayTimeline(Point point, ResourceId allocation, ByteRange bytes, std::string name)
      : Timeline(DeviceId{}, std::move(name)),
        point_(std::move(point)),
        allocation_(allocation),
        bytes_(bytes) {}

  const Point& relayed() const noexcept { return point_; }

  PointState query(TimelineValue value) const noexcept override;
  Failure failure(TimelineValue value) const override;
  PointState wait(TimelineValue value, sync::Deadline deadline) const override;

 private:
  PointState answer(PointState state) const noexcept;

  const Point point_;
  const ResourceId allocation_;
  const ByteRange bytes_;
};

}  // namespace holdfast::hal
