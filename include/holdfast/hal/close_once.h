#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "holdfast/base/sync/condition.h"
#include "holdfast/hal/device.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Makes sure that an object is closed once, however many callers ask. Closing drops what lists own
// (deleters, callbacks, and what those captured), and so runs users' code. That code may close the
// same object again. A call that the running close could be waiting for therefore does not wait for
// it. Thread-safe.
class CloseOnce {
 public:
  // Returns nothing to the first caller, which must close the object and then call finish(). Other
  // callers wait for that and get its report. A caller whose wait might never end does not wait:
  // the task that closes, code that runs on a device, and any caller if `may_wait` is false. Until
  // there is a report, such a caller gets one that says that the object is being closed.
  std::optional<CloseReport> begin(const std::string& what, bool may_wait = true);
  void finish(const CloseReport& report);
  // Whether anybody has begun to close.
  bool begun() const noexcept { return begun_.load(); }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<const void*> closer_{nullptr};  // the task that is closing
  sync::Mutex mutex_;
  sync::Condition finished_;
  std::optional<CloseReport> report_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
