#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace holdfast::simulation {

// A body that runs on a stack of its own and can stop in the middle. Resumed by one thread only.
// What belongs to the thread and not to the stack goes along: exceptions under way, and what
// AddressSanitizer and ThreadSanitizer know about stacks and order. Stacks have a guard page, and
// are used again by later fibers; there is one pool of them, for one thread at a time.
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{512} * 1024;

  // The body must not throw. Its captures are destroyed on the fiber.
  explicit Fiber(std::function<void()> body);
  // One that has not ended is left as it is, for good, with all that is on its stack.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends or ends.
  void resume();
  // Called by the body: returns when it is resumed.
  void suspend();
  bool ended() const noexcept;

  // Stacks were left for good: from now on, what only they refer to is no leak.
  static void note_left_stacks() noexcept;

 private:
  struct Worker;
  struct Pool;
  static Pool& pool();
  std::unique_ptr<Worker> worker_;
};

}  // namespace holdfast::simulation
