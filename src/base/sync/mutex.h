#pragma once

#include <mutex>
#include <utility>

namespace holdfast::sync {

class Condition;

// Not recursive. Held only through a Lock, for a few instructions: never while waiting for a
// device, compiling, calling users' code, or dropping what may run a destructor of theirs.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class Lock;
  std::mutex mutex_;
};

class Lock {
 public:
  explicit Lock(Mutex& mutex) : lock_(mutex.mutex_) {}

  // For the rare function that must step outside for a while; the destructor copes with both.
  void unlock() { lock_.unlock(); }
  void lock() { lock_.lock(); }
  bool owns() const noexcept { return lock_.owns_lock(); }

  static Lock try_take(Mutex& mutex) { return Lock(mutex, std::try_to_lock); }

 private:
  friend class Condition;
  Lock(Mutex& mutex, std::try_to_lock_t how) : lock_(mutex.mutex_, how) {}
  std::unique_lock<std::mutex> lock_;
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
    Access(Mutex& mutex, V& value) : lock_(mutex), value_(&value) {}
    Lock lock_;
    V* value_;
  };

  [[nodiscard]] Access<T> lock() { return Access<T>(mutex_, value_); }
  [[nodiscard]] Access<const T> lock() const { return Access<const T>(mutex_, value_); }

 private:
  mutable Mutex mutex_;
  T value_;
};

}  // namespace holdfast::sync
