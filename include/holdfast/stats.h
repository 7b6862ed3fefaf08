#pragma once

#include <string>

#include "holdfast/kernel/options.h"
#include "holdfast/runtime/stats.h"

#pragma GCC visibility push(default)

namespace holdfast {

using KernelStats = kernel::CacheStats;
using runtime::MemoryStats;
using runtime::RuntimeStats;
using runtime::to_string;
using runtime::WaitReason;
using runtime::WaitStats;

struct Stats {
  RuntimeStats runtime{};  // waits by reason, memory, submissions, retirements
  KernelStats kernels{};   // hits, compiles, evictions
  uint64_t nodes_recorded = 0;
  uint64_t nodes_failed = 0;
  uint64_t donated = 0;        // inputs whose memory became an output's
  uint64_t hidden_copies = 0;  // made because a kernel wanted another layout, or memory of its own
  uint64_t early_submits = 0;  // while an evaluation was still recording
  // Of compiled functions: signatures traced, calls recorded as replays, and calls that ran
  // uncompiled.
  uint64_t functions_traced = 0;
  uint64_t replays = 0;
  uint64_t calls_not_compiled = 0;

  Bytes active_memory() const noexcept { return runtime.memory.live; }
  Bytes peak_memory() const noexcept { return runtime.memory.live_peak; }
  Bytes cache_memory() const noexcept { return runtime.memory.pooled; }
};
std::string to_string(const Stats& stats);

}  // namespace holdfast

#pragma GCC visibility pop
