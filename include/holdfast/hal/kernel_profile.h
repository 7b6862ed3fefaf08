#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <utility>
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
  // Longest first. What a device has measured and not added yet is asked for first.
  std::vector<KernelTime> times() const;
  // Adds what has been measured meanwhile. Set once, before anybody else knows the profile.
  void set_collector(std::function<void()> collect) { collect_ = std::move(collect); }

 private:
  std::atomic<bool> enabled_{false};
  std::function<void()> collect_;
  sync::Guarded<std::map<std::string, KernelTime>> kernels_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
