#pragma once

#include <chrono>

#include "holdfast/base/sync/clock.h"

namespace holdfast::sync {

// For what happens at once unless something hangs.
inline Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }

}  // namespace holdfast::sync
