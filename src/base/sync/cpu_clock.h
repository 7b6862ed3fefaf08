#pragma once

#include <ctime>

#include "holdfast/base/sync/deadline.h"

namespace holdfast::sync {

// Processor time that the calling thread itself has used so far: for measuring, never for waiting.
inline Duration thread_cpu_time() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace holdfast::sync
