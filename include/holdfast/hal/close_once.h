#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "holdfast/base/sync/condition.h"
#include "holdfast/hal/device.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// One close for all who ask. Closing runs users' code, by letting go of what lists own: deleters,
// callbacks, destructors of what those captured. That code may close the same object again, so a
// call that the closing could wait for does not wait for the closing. Thread-safe.
class CloseOnce {
 public:
  // Nothing: the caller is the one that closes, and calls finish() when it has. Otherwise another
  // call is or was at it: its report, for which this waits; or one that says so, where waiting
  // might never end: in the task that closes, in code that runs on a device, and where `may_wait`
  // is false.
  std::optional<CloseReport> begin(const std::string& what, bool may_wait = true);
  void finish(const CloseReport& report);
  // Whether anybody began.
  bool begun() const noexcept { return begun_.load(); }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<const void*> closer_{nullptr};  // the task that is at it
  sync::Mutex mutex_;
  sync::Condition finished_;
  std::optional<CloseReport> report_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
