#include "holdfast/hal/failed_values.h"

namespace holdfast::hal {

const ListFailure* FailedValues::find(uint64_t value) const noexcept {
  const Entry* at = newest_.load(std::memory_order_acquire);
  while (at != nullptr && at->value > value) at = at->older;
  return at != nullptr && at->value == value ? &at->failure : nullptr;
}

void FailedValues::add_locked(uint64_t value, ListFailure failure) {
  owned_.push_back(std::make_unique<const Entry>(
      Entry{value, std::move(failure), newest_.load(std::memory_order_relaxed)}));
  newest_.store(owned_.back().get(), std::memory_order_release);
}

void FailedValues::withdraw_locked(uint64_t value) {
  const Entry* const newest = newest_.load(std::memory_order_relaxed);
  if (newest != nullptr && newest->value == value) {
    newest_.store(newest->older, std::memory_order_release);
  }
}

}  // namespace holdfast::hal
