#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>

#include "holdfast/hal/failed_values.h"

namespace holdfast::hal {

// Lists of one queue that may turn out to have failed once they have run, because their kernels
// report it to memory. Whoever sees such a list's value first reads the report, before anybody can
// see the value. The core's lock guards what ends in _locked; the rest needs none.
class GpuOutcomes {
 public:
  // How the list ended; none: well. Called once the device has come to the value, under the core's
  // lock: it touches memory alone. May be called again where it throws.
  using Read = std::function<ListFailure()>;

  // Before the value is handed to the driver; values grow.
  void expect_locked(uint64_t value, Read read);
  // Takes the newest one back: the driver did not take it.
  void withdraw_locked(uint64_t value);
  // Reads what is expected of values up to this one. False: there is no host memory for that now.
  bool settle_locked(uint64_t reached) noexcept;
  // Whether it is not known yet how the value ends.
  bool is_open_locked(uint64_t value) const noexcept;

  // One load where it says so.
  bool none() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  // Null if the value did not fail, or is still open.
  const ListFailure* find(uint64_t value) const noexcept { return failures_.find(value); }

 private:
  struct Expected {
    uint64_t value = 0;
    Read read;
  };
  std::deque<Expected> expected_;
  std::atomic<size_t> count_{0};  // of these
  FailedValues failures_;
};

}  // namespace holdfast::hal
