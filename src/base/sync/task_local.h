#pragma once

#include <array>
#include <cstddef>

namespace holdfast::sync {

namespace internal {
inline constexpr size_t kTaskSlots = 8;
// What one task keeps for itself.
using TaskSlots = std::array<void*, kTaskSlots>;
// Those of the task that a scheduler runs on this thread; null where the thread is the task.
inline constinit thread_local TaskSlots* scheduled_slots = nullptr;
inline TaskSlots& task_slots() noexcept {
  thread_local TaskSlots of_thread{};
  return scheduled_slots != nullptr ? *scheduled_slots : of_thread;
}
size_t claim_task_slot() noexcept;
}  // namespace internal

// Tells the calling task from all others that live now; compared, never dereferenced.
inline const void* this_task() noexcept { return &internal::task_slots(); }

// A pointer that each task has its own of, null at first; it owns nothing. Make one per purpose, as
// a namespace-scope constant; there is room for a handful (kTaskSlots), checked at start-up.
template <typename T>
class TaskLocalPointer {
 public:
  TaskLocalPointer() noexcept : slot_(internal::claim_task_slot()) {}
  T* get() const noexcept { return static_cast<T*>(internal::task_slots()[slot_]); }
  void set(T* value) const noexcept {
    internal::task_slots()[slot_] = const_cast<void*>(static_cast<const void*>(value));
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
  size_t slot_;
};

}  // namespace holdfast::sync
