#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/close_once.h"
#include "holdfast/hal/device.h"
#include "holdfast/runtime/allocator.h"
#include "holdfast/runtime/history_locks.h"
#include "holdfast/runtime/options.h"
#include "holdfast/runtime/stats.h"
#include "holdfast/runtime/waits.h"

namespace holdfast::runtime {

class Recorder;

// What a Context, its Streams and its reaper share. One class, since its parts guard each other's
// promises; one file a part: retirement.cc, budget.cc, host_access.cc, outside_access.cc, and
// core.cc for memory, streams and the end.
//
// Lives as long as one of them does; closed by
// the Context. Thread-safe. Order of locks: a Recorder's, then those of histories, ascending, then
// the Allocator's. No lock is held while waiting, submitting, or dropping anything.
class Core final : public std::enable_shared_from_this<Core> {
 public:
  Core(Ref<hal::Device> device, Options options);
  ~Core();

  // Before anything else: ClosedError, or UsageError in a forked process.
  void check_usable() const {
    if (forked() || closed()) refuse_use();
  }
  bool forked() const noexcept { return fork_generation_ != sync::fork_generation(); }

  const Options& options() const noexcept { return options_; }
  hal::Device& device() const noexcept { return *device_; }
  Allocator& allocator() noexcept { return *allocator_; }
  Waits& waits() noexcept { return waits_; }
  // They guard every Allocation's history.
  HistoryLocks& history_locks() noexcept { return history_locks_; }

  // Retirement: drops the Holds of all lists that are finished. Never blocks on the device.
  size_t retire();
  // A list was abandoned.
  void abandoned(hal::Ticket& ticket);
  // Called after each submit, with no lock held: retires, and wakes the reaper where it sleeps.
  void submitted();
  // A list that waits for a Point outside the device is about to be submitted (1), or was refused
  // (-1).
  void count_outside_wait(int change) noexcept;

  // Budget: called before each transaction and each flush, keeps what waits for the device within
  // the options. Lists in flight are counted where some were added since.
  // Whatever it throws (a wait can be interrupted), nothing of the caller's has happened yet.
  void keep_within_budget() {
    if (submissions_.load(std::memory_order_relaxed) !=
        counted_submissions_.load(std::memory_order_relaxed)) {
      keep_within_budget_to_flush();
    } else if (has_deferred_too_much()) {
      reduce_deferred();
    }
  }
  void keep_within_budget_to_flush();
  // Waits for the oldest submission in global order that does not itself wait for something outside
  // the device; false where there is none.
  bool wait_for_oldest(WaitReason reason);
  // Submits the open lists that keep dead memory, then waits for the oldest submission; false where
  // neither was possible. Where there is nothing else, waits for a transfer out of this memory.
  bool make_progress(WaitReason reason);

  // Accesses that no list of ours makes: see Context.
  void add_outside_access(hal::Allocation& allocation, hal::Access access, const hal::Point& point);
  void make_native_wait(void* native_stream, hal::Allocation& written);

  // Transfers: a list of another device, in flight, reads so much of this one's memory. Bounded in
  // all by Options::deferred_limit: beyond it make_room_for_transfer waits for the oldest one that
  // does not wait for the host. A transfer larger than that goes alone.
  void make_room_for_transfer(Bytes bytes);
  void add_reader(const std::shared_ptr<Core>& reader, const hal::Point& point, Bytes bytes);

  // `recorder` is who will use it first; null: anybody. OutOfMemoryError says who holds what.
  Ref<hal::Allocation> allocate(Recorder* recorder, Bytes size, std::string&& name,
                                hal::MemoryKind kind, const std::source_location& site = {});

  // Gives free blocks back to the device, until at most `keep` bytes are pooled.
  void trim(Bytes keep = {});
  // The deleter runs in any case.
  Ref<hal::Allocation> import(hal::ExternalMemory memory);

  // Host access. Submits the lists that touch the range, waits for them, and registers the access:
  // a map at once, so that nothing in conflict is recorded any more; a readback when nothing is
  // left to wait for.
  void begin_host_access(hal::Allocation& allocation, hal::AccessHistory::HostAccess& access,
                         WaitReason reason, const WaitLimit& limit);
  // Registers it only if there is nothing to wait for.
  bool try_begin_host_access(hal::Allocation& allocation, hal::AccessHistory::HostAccess& access);
  // Submits and waits for those who write the range; raises what a failed one left in it.
  void wait_for_writers(hal::Allocation& allocation, ByteRange range, WaitReason reason,
                        const WaitLimit& limit);
  // Raises what a failed writer left in the range, if it is seen already. Never waits.
  void raise_poison(hal::Allocation& allocation, ByteRange range);
  // `happened`: the caller did what it registered for; a write then heals what a failed list left
  // in the range.
  void end_host_access(hal::Allocation& allocation, const hal::AccessHistory::HostAccess& access,
                       bool happened = true) noexcept;
  // Until a readback that conflicts with the access has ended, if there is one.
  void wait_for_readbacks(hal::Allocation& allocation, ByteRange range, hal::Access access,
                          const WaitLimit& limit = {});

  // While the host copies from or to mapped memory: closing, which may unmap it, waits. ClosedError
  // where that has begun; for a transfer, which closing waits for too, where memory is going.
  class HostCopy {
   public:
    enum class Of : bool { caller, transfer };
    explicit HostCopy(Core& core, Of of = Of::caller);
    ~HostCopy() { core_.host_copies_.fetch_sub(1); }
    HostCopy(const HostCopy&) = delete;
    HostCopy& operator=(const HostCopy&) = delete;

   private:
    Core& core_;
  };

  // Streams.
  hal::LaneId new_lane();
#ifdef HOLDFAST_ABLATIONS
  void vacate_lane(hal::LaneId lane) { vacated_lanes_.lock()->push_back(lane); }
#endif
  void add_recorder(const Ref<Recorder>& recorder);
  void remove_recorder(const Recorder& recorder);
  std::vector<Ref<Recorder>> recorders() const;
  // Submits the open list of this Ticket, whosever it is; returns once it is submitted or
  // abandoned. What a refused submit means is told to those who depend on it.
  void submit_open_list(const hal::Ticket& ticket);
  // Submits a copy that depends on nothing in flight, to a queue on which nothing that waits for
  // the host comes before it, if there is one: choosing and submitting are one step for others.
  // Raises what the device refused it with.
  Ref<hal::Ticket> submit_transfer(const hal::Binding& from, const hal::Binding& to);

  // A recorder that others keep overtaking takes precedence: until it is done, others wait before
  // they record.
  class Precedence {
   public:
    explicit Precedence(Core& core);
    ~Precedence();
    Precedence(const Precedence&) = delete;
    Precedence& operator=(const Precedence&) = delete;

   private:
    Core& core_;
  };
  void let_others_pass() {
    if (precedence_taken_.load(std::memory_order_acquire)) wait_for_precedence();
  }

  hal::ListStorage take_list_storage();

  RuntimeStats stats() const;
  Snapshot who_holds_what() const;
  void start_reaper();
  hal::CloseReport close();
  bool closed() const noexcept { return close_.begun(); }

 private:
  [[noreturn]] void refuse_use() const;
  bool has_deferred_too_much() const noexcept {
    return allocator_->deferred_bytes() > options_.deferred_limit ||
           allocator_->deferred_objects() > options_.deferred_objects;
  }
  void reduce_deferred();
  bool over_budget() const noexcept;
  uint64_t in_flight() const noexcept;
  // What waits for a Point outside the device, which the caller may have yet to signal; what waits
  // for that; and what comes after either on its queue.
  struct Gated;
  Gated find_gated() const;
  std::optional<hal::Point> oldest_ungated() const;
  // Of a Point of one of the queues.
  bool is_gated(const hal::Point& point) const;
  // Whether a gated list is in flight on the queue. Lasting only for who has the queue's turn.
  bool is_held_up(const hal::Queue& queue) const;
  // The stream that carries transfers on a queue, made on first use.
  Ref<Recorder> transfer_recorder(size_t queue);
  void drop(hal::Retired retired);
  // Takes out the outside accesses that are over; to be dropped without the lock.
  std::vector<Ref<hal::Ticket>> retire_outside_locked(Allocator::Garbage& garbage)
      HOLDFAST_REQUIRES(retire_mutex_);
  // Until outside accesses are over, or the deadline has passed.
  void wait_for_outside(sync::Deadline deadline);
  void wake_reaper();
  bool has_nothing_in_flight() const noexcept {
    return in_flight() == 0 && outside_count_.load() == 0;
  }
#ifdef HOLDFAST_ABLATIONS
  // Whether another policy of retirement is in force instead of ours; it was applied then.
  bool retires_as_ablated();
#else
  static constexpr bool retires_as_ablated() { return false; }
#endif
  void submit_and_wait(const hal::AccessHistory::Tickets& tickets, WaitReason reason,
                       const WaitLimit& limit);
  // Waits for the oldest transfer out of this memory that does not wait for the host, and has its
  // device let go of that memory; false where there is none.
  bool wait_for_reader(WaitReason reason, const WaitLimit& limit = {});
  void forget_finished_readers();
  void wait_for_precedence();
  void reap();
  void stop_reaper(sync::Deadline deadline);

  Ref<hal::Device> device_;
  Options options_;
  uint32_t fork_generation_;
  Ref<Allocator> allocator_;
  Waits waits_;
  HistoryLocks history_locks_{hal::LaneId::next()};

  // Makes "finished" and "its memory is free" one step for others.
  sync::Mutex retire_mutex_{sync::LockOrder::retirement};
  // Accesses by others whose Points were not seen resolved; `outside_count_` of them.
  std::vector<Ref<hal::Ticket>> outside_ HOLDFAST_GUARDED_BY(retire_mutex_);
  std::atomic<uint32_t> outside_count_{0};
  std::atomic<uint64_t> retired_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> submissions_{0};
  std::atomic<uint64_t> counted_submissions_{0};  // when lists in flight were within the budget
  // Lists in flight that wait for a Point outside the device.
  std::atomic<uint64_t> outside_waits_{0};
  sync::Guarded<std::vector<hal::ListStorage>> spare_lists_;

  // A list of another device that reads memory of this one.
  struct Reader {
    std::weak_ptr<Core> core;
    hal::Point point;
    Bytes bytes;
  };
  sync::Guarded<std::vector<Reader>> readers_;  // oldest first; some may be over

  struct Streams {
    std::unordered_map<uint64_t, Ref<Recorder>> by_lane;
    std::vector<Ref<Recorder>> transfers;  // one a queue, made on first use
    bool closed = false;
    // Of streams that are gone.
    uint64_t commands = 0;
    uint64_t barriers = 0;
    uint64_t holds = 0;
  };
  sync::Guarded<Streams> streams_;

  sync::Mutex
      access_mutex_;  // with access_changed_, for those who wait for a readback or for precedence
  sync::Condition access_changed_;
  uint64_t accesses_ended_ HOLDFAST_GUARDED_BY(access_mutex_) = 0;  // guarded by access_mutex_
  std::atomic<uint32_t> access_waiters_{0};
  std::atomic<uint64_t> access_serial_{0};
  std::atomic<bool> precedence_taken_{false};
  std::atomic<uint32_t> host_copies_{0};
  std::atomic<bool> memory_is_going_{false};

#ifdef HOLDFAST_ABLATIONS
  // Of streams that are gone, newest last: what a heap would do with their addresses.
  sync::Guarded<std::vector<hal::LaneId>> vacated_lanes_;
#endif

  sync::Mutex reaper_mutex_;  // guards the four below
  sync::Condition reaper_changed_;
  bool reaper_stops_ HOLDFAST_GUARDED_BY(reaper_mutex_) = false;
  bool reaper_ended_ HOLDFAST_GUARDED_BY(reaper_mutex_) = true;
  sync::Thread reaper_;
  std::atomic<bool> reaper_sleeps_{false};
  std::atomic<const void*> reaper_task_{nullptr};
  hal::CloseOnce close_;
};

// Closes what is still open when main returns.
void close_at_exit(const std::shared_ptr<Core>& core);

}  // namespace holdfast::runtime
