#pragma once

#include <chrono>

namespace holdfast::sync {

using Duration = std::chrono::nanoseconds;
// Monotonic; unrelated to the time of day.
using TimePoint = std::chrono::steady_clock::time_point;

}  // namespace holdfast::sync
