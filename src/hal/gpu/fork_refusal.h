#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "holdfast/base/error.h"

namespace holdfast::hal {

// Drivers have threads and locks of their own, of which a forked child has copies in whatever state
// they were: a call might never return. So a driver belongs to the process that first asked for it.
// `owner` says which, and starts as zero; `what` is the driver's name for people.
Failure refusal_after_fork(std::atomic<uint64_t>& owner, std::string_view what);

}  // namespace holdfast::hal
