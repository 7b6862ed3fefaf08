#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace holdfast::sync {

namespace internal {
inline constexpr size_t kTaskSlots = 16;
// What one task keeps for itself.
using TaskSlots = std::array<void*, kTaskSlots>;
// Those of the task that a scheduler runs on this thread; null where the thread is the task.
inline constinit thread_local TaskSlots* scheduled_slots = nullptr;
inline TaskSlots& task_slots() noexcept {
  thread_local TaskSlots of_thread{};
  return scheduled_slots != nullptr ? *scheduled_slots : of_thread;
}
// Gives `slot` a number of its own, unless it has one.
size_t claim_task_slot(std::atomic<size_t>& slot) noexcept;
}  // namespace internal

// Tells the calling task from all others that live now; compared, never dereferenced.
inline const void* this_task() noexcept { return &internal::task_slots(); }

// A pointer that each task has its own of, null at first; it owns nothing. Make one per purpose, as
// a namespace-scope constant, which is ready before any code runs; there is room for a handful
// (kTaskSlots), checked on first use.
template <typename T>
class TaskLocalPointer {
 public:
  constexpr TaskLocalPointer() noexcept = default;
  T* get() const noexcept { return static_cast<T*>(internal::task_slots()[slot()]); }
  void set(T* value) const noexcept {
    internal::task_slots()[slot()] = const_cast<void*>(static_cast<const void*>(value));
  }

  // Sets the pointer for a scope and restores what was there.
  class Scope {
   public:
    Scope(const TaskLocalPointer& local, T* value) noexcept : local_(local), before_(local.get()) {
      local_.set(value);
    }
    ~Scope() { local_.set(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const TaskLocalPointer& local_;
    T* before_;
  };

 private:
  size_t slot() const noexcept {
    const size_t slot = slot_.load(std::memory_order_relaxed);
    return slot != 0 ? slot - 1 : internal::claim_task_slot(slot_);
  }
  mutable std::atomic<size_t> slot_{0};  // one more than the slot's number; zero: none yet
};

}  // namespace holdfast::sync
