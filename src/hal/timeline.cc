#include "holdfast/hal/timeline.h"

#include <fmt/format.h>

namespace holdfast::hal {

const char* to_string(PointState state) {
  switch (state) {
    case PointState::pending: return "pending";
    case PointState::reached: return "reached";
    case PointState::failed: return "failed";
  }
  return "unknown";
}

std::string to_string(const Point& point) {
  if (!point.timeline) return "nothing";
  return fmt::format("{} @ {}", point.timeline->name(), point.value.value);
}

}  // namespace holdfast::hal
