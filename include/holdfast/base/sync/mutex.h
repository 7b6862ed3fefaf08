#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "holdfast/base/sync/annotations.h"
#include "holdfast/base/sync/lock_order.h"
#include "holdfast/base/sync/scheduler.h"

#pragma GCC visibility push(default)

namespace holdfast::sync {

class Condition;

namespace internal {
inline constinit std::atomic<uint64_t> lock_waits{0};
}
// How often a task has found a Mutex taken since the process began; for measurements.
inline uint64_t lock_waits() noexcept {
  return internal::lock_waits.load(std::memory_order_relaxed);
}

// Not recursive. Held only through a Lock, for a few instructions: never while waiting for a
// device, compiling, calling users' code, or dropping what may run a destructor of theirs.
class HOLDFAST_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  explicit Mutex(LockOrder order, uint8_t place = 0) noexcept : rank_{order, place} {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // For clang's analysis only: states that the caller holds the mutex where the analysis cannot see
  // it, as in the predicate of a wait.
  void assert_held() const noexcept HOLDFAST_ASSERT_HELD(this) {}
  // Whether a thread could have taken it just now. For tests.
  bool is_free() const noexcept { return word_.load(std::memory_order_relaxed) == vacant; }

 private:
  friend class Condition;
  friend class Lock;
  enum : uint32_t { vacant, taken, awaited };  // awaited: taken, and somebody may be asleep

  // One atomic operation each where nobody else wants it: no call.
  bool try_take() noexcept {
    uint32_t free = vacant;
    return word_.compare_exchange_strong(free, taken, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void take() noexcept {
    if (!try_take()) take_slowly();
  }
  void give() noexcept {
    if (word_.exchange(vacant, std::memory_order_release) == awaited) word_.notify_one();
  }
  // Looks for a while, since holders are soon done, then sleeps.
  void take_slowly() noexcept;

  std::atomic<uint32_t> word_{vacant};
  const LockRank rank_;
};

// A mutex that no scheduler knows, for code that itself simulates or schedules. Its holder touches
// memory and nothing else: no other lock, no callback, no foreign destructor.
class HOLDFAST_CAPABILITY("mutex") LeafMutex {
 public:
  LeafMutex() = default;
  LeafMutex(const LeafMutex&) = delete;
  LeafMutex& operator=(const LeafMutex&) = delete;

  void assert_held() const noexcept HOLDFAST_ASSERT_HELD(this) {}  // as Mutex::assert_held

 private:
  friend class LeafLock;
  std::mutex mutex_;
};

class HOLDFAST_SCOPED_CAPABILITY LeafLock {
 public:
  explicit LeafLock(LeafMutex& mutex) HOLDFAST_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~LeafLock() HOLDFAST_RELEASE() {}  // NOLINT(modernize-use-equals-default): carries the attribute
  LeafLock(const LeafLock&) = delete;
  LeafLock& operator=(const LeafLock&) = delete;
  void unlock() HOLDFAST_RELEASE() { lock_.unlock(); }
  void lock() HOLDFAST_ACQUIRE() { lock_.lock(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

class HOLDFAST_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex, const Where& where = Where::current()) HOLDFAST_ACQUIRE(mutex)
      : mutex_(mutex) {
    take(where);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() HOLDFAST_RELEASE() {
    if (owns_) give();
  }

  // For the rare function that must step outside for a while; the destructor copes with both.
  void unlock() HOLDFAST_RELEASE() { give(); }
  void lock(const Where& where = Where::current()) HOLDFAST_ACQUIRE() { take(where); }
  bool owns() const noexcept { return owns_; }

 private:
  friend class Condition;
  // What a Condition waits with: the mutex alone, which no check and no scheduler sees.
  class Bare {
   public:
    explicit Bare(Mutex& mutex) noexcept : mutex_(mutex) {}
    void lock() noexcept { mutex_.take(); }
    void unlock() noexcept { mutex_.give(); }

   private:
    Mutex& mutex_;
  };
  void give() noexcept {
    owns_ = false;
    const LockRank rank = mutex_.rank_;  // whoever takes the mutex next may end its life
    mutex_.give();
    note_given(rank);
    if (Scheduler* scheduler = Scheduler::current()) scheduler->give(&mutex_, true);
  }
  void take(const Where& where) {
    check_and_note_taken(mutex_.rank_, where);
    if (Scheduler* scheduler = Scheduler::current()) scheduler->take(&mutex_, where);
    mutex_.take();
    owns_ = true;
  }
  Mutex& mutex_;
  bool owns_ = false;
};

// A value that can be reached only while its mutex is held:
//   auto names = names_.lock();  names->push_back(name);
template <typename T>
class Guarded {
 public:
  template <typename... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}

  template <typename V>
  class Access {
   public:
    V& operator*() const noexcept { return *value_; }
    V* operator->() const noexcept { return value_; }

   private:
    friend class Guarded;
    Access(Mutex& mutex, V& value, const Where& where) : lock_(mutex, where), value_(&value) {}
    Lock lock_;
    V* value_;
  };

  [[nodiscard]] Access<T> lock(const Where& where = Where::current()) {
    return Access<T>(mutex_, value_, where);
  }
  [[nodiscard]] Access<const T> lock(const Where& where = Where::current()) const {
    return Access<const T>(mutex_, value_, where);
  }

 private:
  mutable Mutex mutex_;
  T value_;
};

}  // namespace holdfast::sync

#pragma GCC visibility pop
