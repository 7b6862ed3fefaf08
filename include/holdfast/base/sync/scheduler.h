#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/sync/deadline.h"

#pragma GCC visibility push(default)

namespace holdfast::sync {

// Where in the code a task is, for reports.
using Where = std::source_location;

// Things that can happen beside the tasks: the next commands of a simulated device. The scheduler
// decides when. Called on the scheduler's own thread, never two calls at once.
class EventSource {
 public:
  // A key names an event in every run of the same program, and gives the order in which events
  // happen by default. Its upper eight bits are the scheduler's.
  using Key = uint64_t;

  // Appends what may happen now.
  virtual void list_events(std::vector<Key>& keys) = 0;
  // Appends what may happen only because nothing else can.
  virtual void list_held_back(std::vector<Key>& keys) = 0;
  // Makes it happen. Runs as a task: what it calls may block.
  virtual void run_event(Key key) = 0;
  virtual std::string describe_event(Key key) const = 0;

 protected:
  ~EventSource() = default;
};

// A task that a Scheduler runs.
class ScheduledTask {
 public:
  virtual ~ScheduledTask() = default;
};

// Replaces the system's scheduler for the tasks of one thread. They run one at a time and give way
// only in the calls below, so whoever decides in them decides the whole order of events. Everything
// in base/sync asks current() first; without a scheduler that costs a load and a branch.
class Scheduler {
 public:
  static Scheduler* current() noexcept;

  // Another task may run here. `what` says, for reports, what the task is about to do.
  virtual void switch_point(const char* what, const Where& where) noexcept = 0;
  // A switch point in a loop that does nothing but look: others run first.
  virtual void spin(const Where& where) noexcept = 0;

  // A mutex is known by its address. take() returns once the task may have it; the caller then
  // locks it, which cannot block. Call give() after unlocking it.
  virtual void take(const void* mutex, const Where& where) noexcept = 0;
  virtual void give(const void* mutex, bool may_switch) noexcept = 0;
  // Sleeps until notified (true) or until the deadline. If the last give() allowed no switch,
  // nothing runs between it and this call.
  virtual bool wait(const void* condition, TimePoint deadline, const Where& where) noexcept = 0;
  virtual void notify(const void* condition, bool all) noexcept = 0;

  virtual TimePoint now() noexcept = 0;

  virtual std::shared_ptr<ScheduledTask> start(std::string name, std::function<void()> body) = 0;
  virtual void join(ScheduledTask& task, const Where& where) noexcept = 0;
  virtual bool is_current(const ScheduledTask& task) const noexcept = 0;

  // Chooses one of n, as whoever decides the schedule says.
  virtual uint64_t choose(uint64_t n, const char* what) noexcept = 0;
  virtual void add_source(EventSource& source) = 0;
  virtual void remove_source(EventSource& source) noexcept = 0;
  // The present step touches something that others may touch too: steps that touch nothing in
  // common, or only read it, can be exchanged. `object` is the same in every run.
  virtual void touch(uint64_t object, uint64_t begin, uint64_t end, bool write) noexcept = 0;
  // A line of the schedule that is not a choice, such as a fault.
  virtual void note(std::string_view text) = 0;

  // No switch before the scope ends, except where a task must block.
  class Uninterrupted {
   public:
    Uninterrupted() noexcept;
    ~Uninterrupted();
    Uninterrupted(const Uninterrupted&) = delete;
    Uninterrupted& operator=(const Uninterrupted&) = delete;

   private:
    Scheduler* scheduler_;
  };

 protected:
  ~Scheduler() = default;
  // Installs it for the calling thread.
  static void install(Scheduler* scheduler) noexcept;
  virtual void forbid_switches(int change) noexcept = 0;
};

namespace internal {
inline constinit thread_local Scheduler* scheduler = nullptr;
}

inline Scheduler* Scheduler::current() noexcept { return internal::scheduler; }
inline void Scheduler::install(Scheduler* scheduler) noexcept { internal::scheduler = scheduler; }

inline Scheduler::Uninterrupted::Uninterrupted() noexcept : scheduler_(current()) {
  if (scheduler_ != nullptr) scheduler_->forbid_switches(1);
}
inline Scheduler::Uninterrupted::~Uninterrupted() {
  if (scheduler_ != nullptr) scheduler_->forbid_switches(-1);
}

// Marks where a call enters a device, or any other place where another task may run in between.
inline void switch_point(const char* what, const Where& where = Where::current()) noexcept {
  if (Scheduler* scheduler = Scheduler::current()) scheduler->switch_point(what, where);
}

}  // namespace holdfast::sync

#pragma GCC visibility pop
