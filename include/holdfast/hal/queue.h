#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/hal/command_list.h"
#include "holdfast/hal/timeline.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Queue;

// What a backend executes: a list or, where a wrapping device hands it on piece by piece, one
// command of it.
struct Work {
  const CommandList* list = nullptr;
  // Null: every command. Else this one of the list's (or of its Program's) commands.
  const Command* only = nullptr;
  Point point;
  std::span<const Wait> waits;
  // The queue that the user submitted it to.
  const Queue* queue = nullptr;
  // What the data waits are about; see AwaitedBytes.
  std::span<const AwaitedBytes> awaited{};
};

// A list in flight: its Point, its Holds, and what it waits for.
struct Submission {
  CommandList list;
  Point point;
  std::vector<Wait> waits;
  std::vector<AwaitedBytes> awaited;
  uint64_t sequence = 0;  // the device's global submission order
  bool accepted = false;  // by the backend; guarded by the queue's lock
  Work work;              // the above, as the backend sees it
};

// What one look at a queue found finished. The caller drops it while holding no lock.
using Retired = std::vector<std::unique_ptr<Submission>>;

// Where lists are submitted, in order. Lists of one queue execute in submission order, as if a
// barrier stood between them. Across queues, order exists only through waits. A list's Point
// resolves only after every Point that it waits for, even if the list itself fails early. A
// finished list therefore vouches for everything before it. The damage() of a failed Point says
// which bytes are bad; the list's other writes are good.
//
// The queue keeps every list it was given until retire() has seen its Point resolved. This is done
// here, above the backend, so that no backend can forget it. Thread-safe.
class Queue : public RefCounted {
 public:
  // Only the task that has the turn may submit. The turn is held while a value is taken and the
  // list is translated and handed to the device; recording, query and retire() never need it.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : queue_(std::move(other.queue_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    friend class Queue;
    explicit Turn(Ref<Queue> queue) : queue_(std::move(queue)) {}
    Ref<Queue> queue_;
  };

  const std::string& name() const noexcept { return name_; }
  uint32_t index() const noexcept { return index_; }
  DeviceId device() const noexcept { return device_; }
  const Ref<Timeline>& timeline() const noexcept { return timeline_; }

  // Returns nothing if the turn is taken. UsageError for a `native` callback of this queue.
  std::optional<Turn> try_take_turn();
  // Blocks until the turn is free or the deadline has passed. UsageError if it could never become
  // free: for a `native` callback of this queue, and for a task that has the turn already.
  std::optional<Turn> take_turn(sync::Deadline deadline = sync::Deadline::never());

  // On success the list is consumed, its Ticket has its Point, and all of it is kept until retired.
  // On failure (a wait on a Point of another device, a closed or lost device, no memory) nothing
  // ran, nothing will, and the list is still the caller's. Order among lists of one queue is the
  // order of the calls. Waits may be on any resolved or pending Point of this device, of a
  // host-signalled or of an imported timeline.
  // `awaited` says which bytes the data waits are about.
  Result<Point> submit(const Turn& turn, CommandList& list, std::vector<Wait> waits = {},
                       std::vector<AwaitedBytes> awaited = {});
  // The same, taking the turn for the call; the waits are about all that the list reads.
  Result<Point> submit(CommandList& list, std::vector<Wait> waits = {});
  Result<Point> submit(CommandList&& list, std::vector<Wait> waits = {});

  // The queue whose commands the calling task executes (a `native` callback, a host function); null
  // elsewhere. Such a task may not wait for the device.
  static const Queue* executing() noexcept;
  // For backends that run users' code: the calling task executes commands of `queue` for this
  // scope.
  class Executing {
   public:
    explicit Executing(const Queue* queue) noexcept;
    ~Executing();
    Executing(const Executing&) = delete;
    Executing& operator=(const Executing&) = delete;

   private:
    const Queue* before_;
  };

  // Takes out every list whose Point is resolved, in order, and marks its Ticket seen. Never blocks
  // on the device; one query where nothing is finished.
  Retired retire();
  // The oldest list not retired yet.
  struct Oldest {
    Point point;
    uint64_t sequence = 0;
  };
  std::optional<Oldest> oldest() const;
  uint32_t in_flight() const noexcept { return in_flight_count_.load(); }
  // Visits every list not retired, under the queue's lock: for reports, and for finding one to wait
  // for.
  void visit_in_flight(const std::function<void(const Submission&)>& visit) const;

 protected:
  // `submission_counter` is shared by the queues of one device and gives the global order.
  Queue(DeviceId device, uint32_t index, std::string name, Ref<Timeline> timeline,
        std::shared_ptr<std::atomic<uint64_t>> submission_counter);
  // Lists whose Point is still unresolved may be touched by the device: they are left alive for
  // good.
  ~Queue() override;

  // The backend's part: accept the work for execution and return at once. The object stays alive
  // and unchanged until its value is resolved on the timeline; the backend frees none of it. Called
  // with the turn held. A failure means that nothing was accepted; the value is then used for the
  // next submission. If commands of a list fail, its Point fails. A backend that can tell which
  // bytes are bad gives the Damage too (ListDamage computes it) and runs the other commands.
  virtual Failure execute(const Work& work) = 0;
  // For a queue that wraps another: calls the inner queue's execute(), whose own submit() nobody
  // calls.
  static Failure hand_on(Queue& inner, const Work& work) { return inner.execute(work); }

 private:
  Failure check(const CommandList& list, const std::vector<Wait>& waits) const;

  std::string name_;
  uint32_t index_;
  DeviceId device_;
  Ref<Timeline> timeline_;
  std::shared_ptr<std::atomic<uint64_t>> submission_counter_;

  sync::Mutex turn_mutex_;  // guards turn_taker_
  sync::Condition turn_free_;
  const void* turn_taker_ HOLDFAST_GUARDED_BY(turn_mutex_) =
      nullptr;                // the task that took the turn, while it is taken
  TimelineValue last_value_;  // guarded by having the turn

  mutable sync::Mutex mutex_{sync::LockOrder::in_flight};  // guards in_flight_
  std::deque<std::unique_ptr<Submission>> in_flight_ HOLDFAST_GUARDED_BY(mutex_);
  std::atomic<uint32_t> in_flight_count_{0};
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
