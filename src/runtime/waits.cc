#include "holdfast/runtime/waits.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/error.h"
#include "holdfast/base/log.h"

namespace holdfast::runtime {
namespace {

// Bumped by interrupt_waits(); a wait that sees it move was interrupted.
std::atomic<uint64_t> interruptions{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// How soon a wait notices an interruption. A device's answer is noticed at once.
constexpr sync::Duration kInterruptCheck = std::chrono::milliseconds(20);

}  // namespace

const char* to_string(WaitReason reason) {
  switch (reason) {
    case WaitReason::synchronize: return "synchronize";
    case WaitReason::point: return "point";
    case WaitReason::readback: return "readback";
    case WaitReason::map: return "map";
    case WaitReason::budget: return "budget";
    case WaitReason::out_of_memory: return "out of memory";
    case WaitReason::submission_turn: return "submission turn";
    case WaitReason::host_access: return "host access";
    case WaitReason::recording: return "recording";
    case WaitReason::shutdown: return "shutdown";
  }
  return "unknown";
}

void interrupt_waits() noexcept { interruptions.fetch_add(1); }

// Counts one wait, from its construction to its end, however that comes.
class Waits::Account {
 public:
  explicit Account(Counters& counters) : counters_(counters), start_(sync::now()) {}
  ~Account() {
    const int64_t ns = (sync::now() - start_).count();
    counters_.count.fetch_add(1, std::memory_order_relaxed);
    counters_.total_ns.fetch_add(ns, std::memory_order_relaxed);
    int64_t longest = counters_.longest_ns.load(std::memory_order_relaxed);
    while (longest < ns && !counters_.longest_ns.compare_exchange_weak(longest, ns)) {
    }
  }
  double ms() const { return static_cast<double>((sync::now() - start_).count()) / 1e6; }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

 private:
  Counters& counters_;
  sync::TimePoint start_;
};

void Waits::wait_until(const std::function<bool(sync::Deadline)>& ready, WaitReason reason,
                       const WaitLimit& limit, const std::string& what) {
  const uint64_t before = interruptions.load();
  const Account account(counters_[static_cast<unsigned>(reason)]);
  for (;;) {
    if (ready(earlier(limit.deadline, sync::Deadline::after(kInterruptCheck)))) {
      logging::note(logging::Topic::waits, "waited {:.3f} ms for {} ({})", account.ms(), what,
                    to_string(reason));
      return;
    }
    if (interruptions.load() != before || (limit.interrupted && limit.interrupted())) {
      throw InterruptedError(
          fmt::format("the wait for {} ({}) was interrupted; nothing is lost, and "
                      "it can be waited for again",
                      what, to_string(reason)));
    }
    if (limit.deadline.passed()) {
      throw TimeoutError(
          fmt::format("{} ({}) was not done within the time limit; nothing is lost, and "
                      "it can be waited for again",
                      what, to_string(reason)));
    }
  }
}

hal::PointState Waits::wait(const hal::Point& point, WaitReason reason, const WaitLimit& limit) {
  hal::PointState state = point.query();
  if (state != hal::PointState::pending) return state;
  if (const hal::Queue* queue = hal::Queue::executing()) {
    throw UsageError(
        fmt::format("code that runs on {} as part of a list may not wait for {}: the "
                    "device could wait for itself",
                    queue->name(), to_string(point)));
  }
  wait_until(
      [&](sync::Deadline deadline) {
        state = point.timeline->wait(point.value, deadline);
        return state != hal::PointState::pending;
      },
      reason, limit, to_string(point));
  return state;
}

hal::Queue::Turn Waits::take_turn(hal::Queue& queue) {
  std::optional<hal::Queue::Turn> turn = queue.try_take_turn();
  if (!turn) {
    wait_until(
        [&](sync::Deadline deadline) {
          if (auto taken = queue.take_turn(deadline)) turn.emplace(std::move(*taken));
          return turn.has_value();
        },
        WaitReason::submission_turn, {}, fmt::format("the turn to submit to {}", queue.name()));
  }
  return std::move(*turn);
}

WaitStats Waits::stats(WaitReason reason) const noexcept {
  const Counters& c = counters_[static_cast<unsigned>(reason)];
  return {c.count.load(std::memory_order_relaxed),
          sync::Duration(c.total_ns.load(std::memory_order_relaxed)),
          sync::Duration(c.longest_ns.load(std::memory_order_relaxed))};
}

}  // namespace holdfast::runtime
