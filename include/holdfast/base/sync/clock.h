#pragma once

#include "holdfast/base/sync/deadline.h"
#include "holdfast/base/sync/scheduler.h"

#pragma GCC visibility push(default)

namespace holdfast::sync {

inline TimePoint now() noexcept {
  if (Scheduler* scheduler = Scheduler::current()) return scheduler->now();
  return std::chrono::steady_clock::now();
}

}  // namespace holdfast::sync

#pragma GCC visibility pop
