#include "holdfast/hal/close_once.h"

#include <fmt/format.h>

#include "holdfast/base/sync/task_local.h"

namespace holdfast::hal {

std::optional<CloseReport> CloseOnce::begin(const std::string& what, bool may_wait) {
  if (!begun_.exchange(true)) {
    closer_.store(sync::this_task());
    return std::nullopt;
  }
  may_wait = may_wait && Queue::executing() == nullptr && closer_.load() != sync::this_task();
  sync::Lock lock(mutex_);
  if (may_wait) {
    finished_.wait(lock, [this]() HOLDFAST_NO_LOCK_CHECK { return report_.has_value(); });
  }
  if (report_) return report_;
  return CloseReport{1, fmt::format("{} is being closed", what)};
}

void CloseOnce::finish(const CloseReport& report) {
  // Another task may get the same place in memory, and must not pass for this one.
  closer_.store(nullptr);
  sync::Lock lock(mutex_);
  report_ = report;
  finished_.notify_all();
}

}  // namespace holdfast::hal
