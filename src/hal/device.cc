#include "holdfast/hal/device.h"

#include <fmt/format.h>

namespace holdfast::hal {

Result<Ref<HostTimeline>> Device::create_host_timeline(std::string name) {
  if (Failure gone = lost()) return gone;
  return make_ref<HostTimeline>(DeviceId{}, std::move(name));
}

Result<UniqueFd> Device::export_point(const Point& point) {
  // Nothing to wait for: value zero of any timeline is resolved from the start.
  if (!point.timeline) return make_ref<HostTimeline>(DeviceId{}, "nothing")->export_value({});
  if (auto* timeline = dynamic_cast<HostTimeline*>(point.timeline.get())) {
    return timeline->export_value(point.value);
  }
  if (auto* timeline = dynamic_cast<DescriptorTimeline*>(point.timeline.get())) {
    return timeline->export_value();
  }
  return Failure(ErrorCode::unsupported, fmt::format("{} cannot be exported by device '{}'",
                                                     to_string(point), info().name));
}

Result<Point> Device::import_point(UniqueFd descriptor, std::string name) {
  if (!descriptor) {
    return Failure(ErrorCode::usage,
                   fmt::format("the Point '{}' was imported from no descriptor", name));
  }
  return Point{make_ref<DescriptorTimeline>(std::move(descriptor), std::move(name)),
               TimelineValue{1}};
}

}  // namespace holdfast::hal
