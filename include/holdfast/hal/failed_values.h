#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/damage.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// The values of one timeline that failed, and why. Changed under the owner's lock, in growing order
// of values; read by anybody without one. Entries live as long as the object.
class FailedValues {
 public:
  FailedValues() = default;
  FailedValues(const FailedValues&) = delete;
  FailedValues& operator=(const FailedValues&) = delete;

  // Null if the value did not fail. Costs a walk over the failures of later values.
  const ListFailure* find(uint64_t value) const noexcept;
  void add_locked(uint64_t value, ListFailure failure);
  // Takes back the newest failure: its value will be used again.
  void withdraw_locked(uint64_t value);

 private:
  struct Entry {
    uint64_t value;
    ListFailure failure;
    const Entry* older;
  };
  std::atomic<const Entry*> newest_{nullptr};
  std::vector<std::unique_ptr<const Entry>> owned_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
