#include "holdfast/hal/device.h"

#include <fmt/format.h>

namespace holdfast::hal {

void CloseReport::add_left(const Queue& queue) {
  queue.visit_in_flight([&](const Submission& left) {
    ++lists_left;
    details += fmt::format("{}{} still runs on {}", details.empty() ? "" : "; ",
                           left.list.describe(), queue.name());
  });
}

Result<Ref<HostTimeline>> Device::create_host_timeline(std::string name) {
  if (Failure gone = lost()) return gone;
  return make_ref<HostTimeline>(DeviceId{}, std::move(name));
}

Result<UniqueFd> Device::export_point(const Point& point) { return export_host_point(point); }

Result<Point> Device::import_point(UniqueFd descriptor, std::string name) {
  if (!descriptor) {
    return Failure(ErrorCode::usage,
                   fmt::format("the Point '{}' was imported from no descriptor", name));
  }
  return Point{make_ref<DescriptorTimeline>(std::move(descriptor), std::move(name)),
               TimelineValue{1}};
}

namespace {

Failure no_native_streams(const DeviceInfo& device) {
  return Failure(ErrorCode::unsupported,
                 fmt::format("device '{}' has no native streams to order work with", device.name));
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): backends keep the name
Result<Point> Device::point_of_native(void* /*native_stream*/, std::string /*name*/) {
  return no_native_streams(info());
}

Failure Device::make_native_wait(void* /*native_stream*/, const Point& /*point*/) {
  return no_native_streams(info());
}

Result<void*> Device::native_stream() { return no_native_streams(info()); }

}  // namespace holdfast::hal
