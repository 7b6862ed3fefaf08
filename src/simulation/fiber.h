#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace holdfast::simulation {

// Stacks for fibers, each with a guard page, used again and again. Not thread-safe; outlives the
// fibers that use it.
class StackPool {
 public:
  static constexpr size_t kStackBytes = size_t{512} * 1024;

  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // The lowest usable byte.
  void* take();
  void give_back(void* bottom) noexcept;

 private:
  std::vector<void*> spare_;
};

// A body that runs on a stack of its own and can stop in the middle. Resumed by one thread only.
// What belongs to the thread and not to the stack goes along: exceptions under way, and what
// AddressSanitizer and ThreadSanitizer know about stacks and order.
class Fiber {
 public:
  // The body must not throw.
  Fiber(StackPool& stacks, std::function<void()> body);
  // One that has not ended is left as it is, for good, with all that is on its stack.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends or ends.
  void resume();
  // Called by the body: returns when it is resumed.
  void suspend();
  bool ended() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::simulation
