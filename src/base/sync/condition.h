#pragma once

#include <condition_variable>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/mutex.h"

namespace holdfast::sync {

// Where tasks wait for a change of what a Mutex guards. Every wait takes the predicate it waits
// for, so a spurious wake-up is nobody's concern.
class Condition {
 public:
  template <typename Predicate>
  void wait(Lock& lock, Predicate done) {
    changed_.wait(lock.lock_, done);
  }
  // Whether the predicate held before the deadline.
  template <typename Predicate>
  bool wait_until(Lock& lock, Deadline deadline, Predicate done) {
    if (deadline.is_never()) {
      changed_.wait(lock.lock_, done);
      return true;
    }
    return changed_.wait_until(lock.lock_, deadline.when(), done);
  }
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace holdfast::sync
