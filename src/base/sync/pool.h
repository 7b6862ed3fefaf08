#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace holdfast::sync {

// Threads that help a caller through a range of independent indices.
class WorkerPool {
 public:
  // `helpers` threads, besides whoever calls run(); zero is allowed and makes run() serial.
  WorkerPool(std::string name, unsigned helpers);
  // Waits for calls of run() under way.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  unsigned helpers() const noexcept;

  // Calls body(begin, end) over chunks of at most `grain` that cover [0, count) exactly once, in no
  // particular order, on the caller and at most `most_helpers` helpers; returns when all have
  // returned. Writes made by the body are visible to the caller then. Thread-safe; calls from
  // several threads share the helpers: after each chunk a helper goes to the call that has fewest.
  // The body must not throw. Cost: a wake-up for each helper that is wanted, the first by the
  // caller and each other one by the helper before it.
  void run(uint64_t count, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body,
           uint64_t most_helpers = UINT64_MAX);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::sync
