#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "holdfast/hal/queue.h"
#include "holdfast/runtime/wait_limit.h"

namespace holdfast::runtime {

// The only place where the runtime makes the host wait. It counts a wait only if it had to block,
// with its reason and duration. Thread-safe; called with no lock held.
class Waits {
 public:
  // Returns reached or failed. TimeoutError or InterruptedError where the limit says so.
  hal::PointState wait(const hal::Point& point, WaitReason reason, const WaitLimit& limit = {});
  // Takes a queue's turn to submit.
  hal::Queue::Turn take_turn(hal::Queue& queue);
  // Waits for anything else: `ready(deadline)` blocks until the deadline at most and says whether
  // it is done.
  void wait_until(const std::function<bool(sync::Deadline)>& ready, WaitReason reason,
                  const WaitLimit& limit, const std::string& what);

  WaitStats stats(WaitReason reason) const noexcept;

 private:
  class Account;
  struct Counters {
    std::atomic<uint64_t> count{0};
    std::atomic<int64_t> total_ns{0};
    std::atomic<int64_t> longest_ns{0};
  };
  std::array<Counters, kWaitReasons> counters_;
};

}  // namespace holdfast::runtime
