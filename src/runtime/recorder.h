#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/queue.h"
#include "holdfast/runtime/core.h"
#include "holdfast/runtime/hazards.h"
#include "holdfast/runtime/stats.h"

namespace holdfast::runtime {

// One command as it is before it is recorded. It borrows its pipeline, bindings, parameters and
// label.
struct PendingCommand {
  hal::CommandKind kind = hal::CommandKind::barrier;
  const Ref<hal::Pipeline>* pipeline = nullptr;  // of a dispatch
  std::span<const hal::Binding> bindings;
  hal::Parameters parameters;
  hal::Groups groups;
  std::byte fill_value{};
  std::shared_ptr<const hal::NativeCallback> native;
  std::string_view label;
  bool checked = false;  // by Recorder::check: recording it does not do so again
};

// A stream's open list: records transactions into it with the barriers and waits they need, and
// submits it. It is what streams share with each other: depending on another stream's open list
// submits that list. Thread-safe: a transaction is recorded in one critical section, and lists are
// taken away only between them.
class Recorder final : public RefCounted {
 public:
  // One that does not yield records at once, also while another recorder has precedence: that one
  // may be waiting for it.
  Recorder(std::shared_ptr<Core> core, Ref<hal::Queue> queue, std::string name, bool yields = true);
  ~Recorder() override;

  hal::LaneId lane() const noexcept { return lane_; }
  const Ref<hal::Queue>& queue() const noexcept { return queue_; }
  const std::string& name() const noexcept { return name_; }

  // Raises what record() would raise about the command's own arguments.
  void check(const PendingCommand& command) const;
  // All commands or, when it throws, none: UsageError, or the failure of what they depend on. May
  // submit other streams' lists; waits only for a readback of what it binds (accounted). `ticket`:
  // where the Ticket of the list that has them now is wanted.
  void record(std::span<const PendingCommand> commands, Ref<hal::Ticket>* ticket = nullptr);
  // What is recorded from now on waits for this; what was recorded before is submitted without it.
  void wait_for(const hal::Wait& wait);
  // Marks an earlier life's end and a new one's start in the open list.
  void mark_lives(const hal::Allocation& born, hal::ResourceId ended);

  // Submits what was recorded; the Point of the last list of this stream. Never waits but for the
  // queue's turn. A refused submit abandons the list with the failure, which it returns; so does
  // the next call, if another stream's need submitted the list.
  Result<hal::Point> flush();
  // The same for those who only need the list to be submitted or abandoned.
  void submit_quietly();
  // Whether it did.
  bool submit_if_it_keeps_deferred();
  // A replay of a program, after what was recorded so far, as a list of its own.
  Result<hal::Point> replay(const Ref<hal::Program>& program, std::span<const hal::Binding> slots,
                            std::span<const std::byte> parameters, std::string_view label);
  // A copy of bytes that nobody writes any more to memory that nobody uses, as a list of its own,
  // with the queue's turn, which it gives back: the list waits for nothing. What is recorded later
  // comes after it where they conflict. Raises what a refused submit says. Only for an recorder
  // that nothing else is recorded in.
  Ref<hal::Ticket> submit_copy(hal::Queue::Turn turn, const hal::Binding& from,
                               const hal::Binding& to, std::string_view label);
  // Commands that wait for `gate` too, after what was recorded so far, as a list of their own: no
  // other command waits for the gate, or fails with it. Natives and copies only; each comes after
  // the one before. Raises what record() raises, and what a refused submit says.
  Ref<hal::Ticket> submit_alone(std::span<const PendingCommand> commands, const hal::Wait& gate);
  // Whether nothing is recorded, waited for or in flight here.
  bool is_idle() const;

  struct Counters {
    uint64_t commands = 0;
    uint64_t barriers = 0;
    uint64_t holds = 0;
  };
  Counters counters() const noexcept;
  // For reports.
  void describe_open(Snapshot& snapshot) const;
  // Whether abandon() was called: its stream or the context is gone.
  bool ended() const;
  // Drops what was not submitted: dependants get the failure. Nothing can be recorded afterwards.
  void abandon(const Failure& why);

 private:
  struct Access;
  struct Detached;
  struct State;

  Failure closed_failure() const;
  void let_others_pass(int round, std::optional<Core::Precedence>& precedence);
  // Adds the accesses of list `own` to their histories, and to `waits` what it must wait for;
  // nothing of either where there are obstacles.
  hal::AccessHistory::Obstacles tell_histories(std::span<const Access> accesses,
                                               const Ref<hal::Ticket>& own, hal::ListWaits& waits);
  // With the locks of all these histories held.
  hal::AccessHistory::Obstacles tell_histories_locked(std::span<const Access> accesses,
                                                      const Ref<hal::Ticket>& own,
                                                      hal::ListWaits& waits);
  // Deals with what stood in the way, with no lock held; raises a refusal.
  void overcome(const hal::AccessHistory::Obstacles& obstacles, std::span<const Access> accesses);
  void append_locked(const PendingCommand& command, std::span<HazardTracker::Entry*> entries);
  // Natives and copies, with a barrier between any two.
  void append_in_order_locked(std::span<const PendingCommand> commands);
  Detached detach_locked();
  hal::CommandList new_list() const;
  // Who hears of it when the device refuses the list.
  enum class Hearer {
    caller,
    next_flush  // the stream's own user: the caller only needed the list out of the way
  };
  Failure submit(const hal::Queue::Turn& turn, Detached& detached, Hearer hearer);
  Result<hal::Point> submit_open_list(Hearer hearer);
  // After the turn: tells the core what became of a list.
  void account(const Detached& detached);

  std::shared_ptr<Core> core_;
  bool yields_;
  Ref<hal::Queue> queue_;
  std::string name_;
  hal::LaneId lane_;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::runtime
