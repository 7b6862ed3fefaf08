#pragma once

#include <ctime>

#include "holdfast/base/sync/deadline.h"

namespace holdfast::sync {

// Processor time that was used so far: for measuring, never for waiting.
inline Duration cpu_time_of(clockid_t clock) noexcept {
  timespec t{};
  clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}
// By the calling thread itself.
inline Duration thread_cpu_time() noexcept { return cpu_time_of(CLOCK_THREAD_CPUTIME_ID); }
// By all threads of the process.
inline Duration process_cpu_time() noexcept { return cpu_time_of(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace holdfast::sync
