#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/scheduler.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/adversary/memory_lives.h"
#include "holdfast/hal/list_damage.h"

namespace holdfast::hal {

// A list in flight, command by command.
struct AdversaryList {
  struct Step {
    const Command* command = nullptr;
    size_t index = 0;  // among the list's commands, for people
    uint32_t wave = 0;
    bool done = false;
  };

  const Work* work = nullptr;  // until its Point is resolved
  uint64_t value = 0;          // of that Point
  uint64_t number = 0;         // on its queue, from zero
  std::vector<Step> steps;
  size_t steps_left = 0;
  uint32_t wave = 0;      // the one under way
  size_t wave_begin = 0;  // its first step
  bool started = false;   // what it waits for has happened
  bool executed = false;
  bool publishing = false;
  std::unique_ptr<ListDamage> damage;  // until it is executed
  ListFailure failure;                 // from then on
  // What it needs, by id: the objects may be gone although they should not be.
  std::vector<ResourceId> resources;
  std::vector<BufferId> buffers;
};

// What a binding means, slots resolved: bytes of an Allocation.
struct AdversaryPlace {
  Allocation* allocation = nullptr;
  ResourceId id;
  Bytes offset;
  Bytes length;
};
AdversaryPlace place_of(const CommandList& list, const BoundRange& bound);

// What an AdversaryDevice, its queues and its probe share: the pending lists and what may happen to
// them (adversary_core.cc), and the lives of memory (adversary_memory.cc). Thread-safe; inside a
// simulation everything runs on one thread and its lock is never contended.
class AdversaryCore final : public sync::EventSource,
                            public std::enable_shared_from_this<AdversaryCore> {
 public:
  AdversaryCore(Ref<Device> inner, AdversaryOptions options);
  ~AdversaryCore();

  // Attaches to the simulation, or starts the thread.
  void start();
  // Returns at the deadline even if a command does not end.
  void stop(sync::Deadline deadline);

  // The queues and their timelines are fixed once the core is made.
  const Ref<HostTimeline>& timeline(size_t queue) const HOLDFAST_NO_LOCK_CHECK {
    return queues_[queue].timeline;
  }
  size_t queue_count() const noexcept HOLDFAST_NO_LOCK_CHECK { return queues_.size(); }

  Failure accept(size_t queue, const Work& work);
  // A failure where the plan says so.
  Failure allocation_fault(const std::string& name);
  Failure compile_fault(std::string_view kernel);
  Failure lost() const;
  void lose(Failure cause);
  void refuse_new_work();
  // The inner device is about to be closed, and its memory may be unmapped: from now on nothing is
  // scribbled.
  void memory_goes();
  // The newest value accepted on a queue.
  TimelineValue newest(size_t queue) const;

  void set_held_back(size_t queue, bool held);
  bool step(size_t queue);
  bool is_simulated() const noexcept { return scheduler_ != nullptr; }

  // Probe
  void made(const Buffer& buffer);
  void born(const Allocation& allocation) noexcept;
  bool keeps(const Resource& resource) noexcept;
  bool keeps(Buffer& buffer) noexcept;
  void host_access(const Allocation& allocation, ByteRange range, Access access) noexcept;
  size_t choose_range(size_t n) noexcept { return static_cast<size_t>(choose(n, "which range")); }

  // EventSource
  void list_events(std::vector<Key>& keys) override;
  void list_held_back(std::vector<Key>& keys) override;
  void run_event(Key key) override;
  std::string describe_event(Key key) const override;

 private:
  // What steps touch besides buffers, which are numbered from zero.
  struct Touched {
    static constexpr uint64_t fault_counters = ~uint64_t{1};
    static constexpr uint64_t unknown_buffer = ~uint64_t{2};
    static constexpr uint64_t callbacks = ~uint64_t{3};
  };
  struct QueueState {
    Ref<Queue> inner;
    Ref<HostTimeline> timeline;
    std::deque<std::shared_ptr<AdversaryList>> lists;  // not visible yet, in order
    uint64_t accepted = 0;
    uint64_t numbered = 0;
    uint64_t executed_value = 0;
    uint64_t inner_value = 0;
    bool busy = false;  // a command of it is under way
    bool held_back = false;
  };

  void list_locked(size_t queue, std::vector<Key>& keys) HOLDFAST_REQUIRES(mutex_);
  AdversaryList* find_locked(Key key) const HOLDFAST_REQUIRES(mutex_);
  // Whether what the wait is for has happened, and how that failed.
  bool has_happened_locked(const Wait& wait, ListFailure& failure) const HOLDFAST_REQUIRES(mutex_);
  // Starts the list where all it waits for has happened, with the damage that it inherits. Whether
  // it is under way.
  bool start_locked(AdversaryList& list) const HOLDFAST_REQUIRES(mutex_);
  // Makes the first wave that has a command left the one under way. Commands that damage forbids
  // are done without having run. Whether there is one.
  static bool begin_wave_locked(AdversaryList& list, size_t first);
  bool may_be_seen_locked(const AdversaryList& list) const HOLDFAST_REQUIRES(mutex_);
  static void finish_locked(QueueState& queue, AdversaryList& list);
  // Why no work is taken any more; none while it is.
  Failure refusal_locked(const Work& work) const HOLDFAST_REQUIRES(mutex_);
  Failure missing_locked(const Work& work) HOLDFAST_REQUIRES(mutex_);
  void publish(size_t queue);
  void execute(size_t queue, AdversaryList& list, size_t step);
  Failure run_now(size_t queue, const CommandList& list, const Command* only, const Queue* user);
  void scribble_new_lives(size_t queue, const AdversaryList& list, const Command& command);
  bool scribble_locked(const Buffer& buffer, ByteRange range) noexcept HOLDFAST_REQUIRES(mutex_);
  bool needed_locked(ResourceId id) const HOLDFAST_REQUIRES(mutex_);
  uint64_t number_locked(const Buffer& buffer) const HOLDFAST_REQUIRES(mutex_);
  void event_over();
  void note(const std::string& text);
  uint64_t choose(uint64_t n, const char* what) noexcept;
  void run_alone();
  void wake();

  const Ref<Device> inner_;
  const AdversaryOptions options_;
  sync::Scheduler* scheduler_ = nullptr;

  mutable sync::LeafMutex mutex_;  // guards all below, except where a comment says otherwise
  std::vector<QueueState> queues_ HOLDFAST_GUARDED_BY(mutex_);
  Failure lost_ HOLDFAST_GUARDED_BY(mutex_);
  bool refusing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  bool memory_gone_ HOLDFAST_GUARDED_BY(mutex_) = false;
  uint64_t random_ HOLDFAST_GUARDED_BY(mutex_);
  uint64_t allocations_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  uint64_t compiles_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  uint64_t submits_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  uint64_t commands_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  uint64_t events_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  unsigned running_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // events under way
  bool timelines_ended_ HOLDFAST_GUARDED_BY(mutex_) = false;
  uint64_t buffers_made_ HOLDFAST_GUARDED_BY(mutex_) = 0;
  std::map<BufferId, uint64_t> buffer_numbers_
      HOLDFAST_GUARDED_BY(mutex_);                          // in the order in which they were made
  std::set<ResourceId> alive_ HOLDFAST_GUARDED_BY(mutex_);  // Allocations
  ResourceId first_known_ HOLDFAST_GUARDED_BY(mutex_);
  MemoryLives lives_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<KeptResource> kept_resources_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<Ref<Buffer>> kept_buffers_ HOLDFAST_GUARDED_BY(mutex_);

  sync::Mutex idle_mutex_;  // guards all below
  sync::Condition idle_changed_;
  bool ending_ HOLDFAST_GUARDED_BY(idle_mutex_) = false;
  bool ended_ HOLDFAST_GUARDED_BY(idle_mutex_) = false;
  bool something_new_ HOLDFAST_GUARDED_BY(idle_mutex_) = false;
  sync::Thread thread_;
};

}  // namespace holdfast::hal
