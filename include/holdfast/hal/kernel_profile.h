#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/device_info.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Measures how long kernels run, while enabled. Thread-safe.
class KernelProfile {
 public:
  // One relaxed load.
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  // Switching it on forgets what was measured before.
  void enable(bool on);
  void add(const std::string& kernel, uint64_t dispatches, sync::Duration time);
  // Longest first.
  std::vector<KernelTime> times() const;

 private:
  std::atomic<bool> enabled_{false};
  sync::Guarded<std::map<std::string, KernelTime>> kernels_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
