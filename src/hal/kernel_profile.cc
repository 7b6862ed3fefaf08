#include "holdfast/hal/kernel_profile.h"

#include <algorithm>

namespace holdfast::hal {

void KernelProfile::enable(bool on) {
  if (on) kernels_.lock()->clear();
  enabled_.store(on, std::memory_order_relaxed);
}

void KernelProfile::add(const std::string& kernel, uint64_t dispatches, sync::Duration time) {
  auto kernels = kernels_.lock();
  KernelTime& entry = (*kernels)[kernel];
  entry.dispatches += dispatches;
  entry.total += time;
}

std::vector<KernelTime> KernelProfile::times() const {
  if (collect_) collect_();
  std::vector<KernelTime> times;
  for (const auto& [name, entry] : *kernels_.lock()) {
    times.push_back({name, entry.dispatches, entry.total});
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.total > b.total; });
  return times;
}

}  // namespace holdfast::hal
