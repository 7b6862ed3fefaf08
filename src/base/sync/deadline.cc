#include "holdfast/base/sync/deadline.h"

#include "holdfast/base/sync/clock.h"

namespace holdfast::sync {

Deadline Deadline::after(Duration duration) noexcept {
  const TimePoint start = now();
  if (duration > TimePoint::max() - start) return never();
  return Deadline(start + duration);
}

bool Deadline::passed() const noexcept { return !is_never() && now() >= when_; }

}  // namespace holdfast::sync
