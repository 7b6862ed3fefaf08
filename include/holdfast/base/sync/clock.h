#pragma once

#include "holdfast/base/sync/scheduler.h"

namespace holdfast::sync {

inline TimePoint now() noexcept {
  if (Scheduler* scheduler = Scheduler::current()) return scheduler->now();
  return std::chrono::steady_clock::now();
}

// The moment until which a caller is willing to wait.
class Deadline {
 public:
  static Deadline never() noexcept { return Deadline(TimePoint::max()); }
  static Deadline at(TimePoint when) noexcept { return Deadline(when); }
  // Saturates: a duration too long to represent is never(); a negative one has passed.
  static Deadline after(Duration duration) noexcept {
    const TimePoint start = now();
    if (duration > TimePoint::max() - start) return never();
    return Deadline(start + duration);
  }

  bool is_never() const noexcept { return when_ == TimePoint::max(); }
  bool passed() const noexcept { return !is_never() && now() >= when_; }
  TimePoint when() const noexcept { return when_; }
  friend Deadline earlier(Deadline a, Deadline b) noexcept { return a.when_ < b.when_ ? a : b; }

 private:
  explicit Deadline(TimePoint when) noexcept : when_(when) {}
  TimePoint when_;
};

}  // namespace holdfast::sync
