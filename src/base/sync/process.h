#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "holdfast/base/sync/mutex.h"

namespace holdfast::sync {

namespace internal {
inline constinit std::atomic<uint32_t> generation{0};
}
// How many forks lie between the first process and this one. Threads do not survive a fork, so
// an object that has some remembers its generation and refuses to work in another. One relaxed
// load.
inline uint32_t fork_generation() noexcept {
  return internal::generation.load(std::memory_order_relaxed);
}

// While one lives, fork() in another thread waits. For what a forked child would find half done for
// ever, since the thread at it does not exist there: calls into the dynamic loader, and locks that
// the whole process shares. Nests; a fork by the thread itself does not wait for it. Cost: two
// atomic operations where nobody forks.
//
// Fork waits ten seconds at most, since C libraries before glibc 2.36 keep dlclose() waiting
// meanwhile.
class NoFork {
 public:
  NoFork() noexcept;
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

// A Guarded for what the whole process shares: no fork finds its mutex taken, so a forked child can
// use it.
template <typename T>
class ProcessGuarded {
 public:
  template <typename... Args>
  explicit ProcessGuarded(Args&&... args) : value_(std::forward<Args>(args)...) {}

  class Access {
   public:
    T& operator*() const noexcept { return *access_; }
    T* operator->() const noexcept { return &*access_; }

   private:
    friend class ProcessGuarded;
    Access(Guarded<T>& value, const Where& where) : access_(value.lock(where)) {}
    NoFork no_fork_;  // first, so that it goes last
    typename Guarded<T>::template Access<T> access_;
  };

  [[nodiscard]] Access lock(const Where& where = Where::current()) { return Access(value_, where); }

 private:
  Guarded<T> value_;
};

// Runs `action` when main returns or exit() is called; not after _exit() or a signal. Actions run
// in reverse order of registration, on the exiting thread, while other threads may still run. Those
// of a forked child run before what others have registered with std::atexit in its parent.
//
// Such a thread is told ClosedError by what the actions closed. Once they have begun, a ClosedError
// that no code of a thread catches ends that thread alone, where it stands, without unwinding it;
// it does not end the process, which is about to end well. Whoever joins the thread goes on.
// Any other exception terminates the process as ever, and so does one of the exiting thread.
void at_exit(std::function<void()> action);

}  // namespace holdfast::sync
