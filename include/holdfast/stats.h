#pragma once

#include <string>

#include "holdfast/hal/kernel_profile.h"
#include "holdfast/kernel/cache/cache_limits.h"
#include "holdfast/runtime/stats.h"

namespace holdfast {

struct Stats {
  runtime::Stats runtime{};      // waits by reason, memory, submissions, retirements
  kernel::CacheStats kernels{};  // hits, compiles, evictions
  uint64_t nodes_recorded = 0;
  uint64_t nodes_failed = 0;
  uint64_t donated = 0;        // inputs whose memory became an output's
  uint64_t hidden_copies = 0;  // made because a kernel wanted another layout, or memory of its own
  uint64_t early_submits = 0;  // while an evaluation was still recording

  Bytes active_memory() const noexcept { return runtime.memory.live; }
  Bytes peak_memory() const noexcept { return runtime.memory.live_peak; }
  Bytes cache_memory() const noexcept { return runtime.memory.pooled; }
};
std::string to_string(const Stats& stats);

using hal::KernelTime;

}  // namespace holdfast
