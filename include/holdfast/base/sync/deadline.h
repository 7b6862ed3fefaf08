#pragma once

#include <chrono>

#pragma GCC visibility push(default)

namespace holdfast::sync {

using Duration = std::chrono::nanoseconds;
// Monotonic; unrelated to the time of day.
using TimePoint = std::chrono::steady_clock::time_point;

// The moment until which a caller is willing to wait.
class Deadline {
 public:
  static Deadline never() noexcept { return Deadline(TimePoint::max()); }
  static Deadline at(TimePoint when) noexcept { return Deadline(when); }
  // Saturates: a duration too long to represent is never(); a negative one has passed.
  static Deadline after(Duration duration) noexcept;

  bool is_never() const noexcept { return when_ == TimePoint::max(); }
  bool passed() const noexcept;
  TimePoint when() const noexcept { return when_; }
  friend Deadline earlier(Deadline a, Deadline b) noexcept { return a.when_ < b.when_ ? a : b; }

 private:
  explicit Deadline(TimePoint when) noexcept : when_(when) {}
  TimePoint when_;
};

}  // namespace holdfast::sync

#pragma GCC visibility pop
