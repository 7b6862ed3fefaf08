#include "holdfast/hal/gpu/gpu_outcomes.h"

#include <algorithm>
#include <new>
#include <utility>

namespace holdfast::hal {

void GpuOutcomes::expect_locked(uint64_t value, Read read) {
  expected_.push_back({value, std::move(read)});
  count_.store(expected_.size(), std::memory_order_release);
}

void GpuOutcomes::withdraw_locked(uint64_t value) {
  if (!expected_.empty() && expected_.back().value == value) expected_.pop_back();
  count_.store(expected_.size(), std::memory_order_release);
}

bool GpuOutcomes::settle_locked(uint64_t reached) noexcept {
  while (!expected_.empty() && expected_.front().value <= reached) {
    try {
      ListFailure failure = expected_.front().read();
      if (failure) failures_.add_locked(expected_.front().value, std::move(failure));
    } catch (const std::bad_alloc&) {
      return false;
    }
    expected_.pop_front();
    count_.store(expected_.size(), std::memory_order_release);
  }
  return true;
}

bool GpuOutcomes::is_open_locked(uint64_t value) const noexcept {
  return std::ranges::any_of(expected_, [&](const Expected& e) { return e.value == value; });
}

}  // namespace holdfast::hal
