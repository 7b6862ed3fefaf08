#pragma once

#include <condition_variable>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/mutex.h"

#pragma GCC visibility push(default)

namespace holdfast::sync {

// Lets tasks wait for a change of what a Mutex guards. Every wait takes its predicate, so callers
// need not handle spurious wake-ups.
class Condition {
 public:
  template <typename Predicate>
  void wait(Lock& lock, Predicate done, const Where& where = Where::current()) {
    check_only_held(lock.mutex_.rank_, where);
    if (Scheduler* scheduler = Scheduler::current()) {
      while (!done()) sleep(*scheduler, lock, TimePoint::max(), where);
      return;
    }
    Lock::Bare bare(lock.mutex_);
    changed_.wait(bare, done);
  }
  // Returns whether the predicate held before the deadline.
  template <typename Predicate>
  bool wait_until(Lock& lock, Deadline deadline, Predicate done,
                  const Where& where = Where::current()) {
    check_only_held(lock.mutex_.rank_, where);
    if (Scheduler* scheduler = Scheduler::current()) {
      while (!done()) {
        if (!sleep(*scheduler, lock, deadline.when(), where)) return done();
      }
      return true;
    }
    Lock::Bare bare(lock.mutex_);
    if (deadline.is_never()) {
      changed_.wait(bare, done);
      return true;
    }
    return changed_.wait_until(bare, deadline.when(), done);
  }
  void notify_one() noexcept {
    changed_.notify_one();
    if (Scheduler* scheduler = Scheduler::current()) scheduler->notify(this, false);
  }
  void notify_all() noexcept {
    changed_.notify_all();
    if (Scheduler* scheduler = Scheduler::current()) scheduler->notify(this, true);
  }

 private:
  bool sleep(Scheduler& scheduler, Lock& lock, TimePoint deadline, const Where& where) {
    lock.owns_ = false;
    const LockRank rank = lock.mutex_.rank_;
    lock.mutex_.give();
    note_given(rank);
    scheduler.give(&lock.mutex_, false);
    const bool notified = scheduler.wait(this, deadline, where);
    lock.take(where);
    return notified;
  }

  std::condition_variable_any changed_;
};

}  // namespace holdfast::sync

#pragma GCC visibility pop
