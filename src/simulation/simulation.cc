#include "holdfast/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>

#include "holdfast/base/error.h"
#include "holdfast/base/leave_alive.h"
#include "holdfast/base/shown.h"
#include "holdfast/base/sync/scheduler.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::simulation {
namespace {

// With nothing but deadlines passing for this long, nobody will ever be woken by anything else.
constexpr uint64_t kIdlePasses = 65536;
constexpr uint64_t kIdleSpins = 8192;
// Where an event's key leaves room for the number of its source.
constexpr unsigned kSourceShift = 56;
constexpr size_t kMaxSources = 256;
// All steps of tasks may touch memory that no mutex guards, so they are never exchanged.
constexpr uint64_t kHostMemory = ~uint64_t{0};

std::string to_string(const sync::Where& where) {
  return fmt::format("{}:{}", shown_path(where.file_name()), where.line());
}

enum class State : uint8_t { ready, spinning, taking, sleeping, joining, ended };

struct Task final : sync::ScheduledTask {
  Actor actor;
  std::string name;
  std::unique_ptr<Fiber> fiber;
  State state = State::ready;
  const void* object = nullptr;  // the mutex or the condition
  const Task* joined = nullptr;
  sync::TimePoint deadline = sync::TimePoint::max();
  bool notified = false;
  uint64_t spun_at = 0;
  const char* what = "start";
  sync::Where where;
  sync::internal::TaskSlots slots{};
};

class Run final : public sync::Scheduler {
 public:
  Run(Driver& driver, std::vector<Injection> injections, const Options& options)
      : driver_(driver), injections_(std::move(injections)), options_(options) {
    std::stable_sort(injections_.begin(), injections_.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
  }

  Outcome operator()(const std::function<void()>& body) {
    if (current() != nullptr) {
      throw UsageError("a simulation cannot be started inside another one on the same thread");
    }
    install(this);
    add_task("main", body);
    next_ = decide();
    while (next_ != nullptr) {
      running_ = next_;
      next_ = nullptr;
      sync::internal::scheduled_slots = &running_->slots;
      running_->fiber->resume();
      sync::internal::scheduled_slots = nullptr;
      if (running_->fiber->ended()) {
        running_->state = State::ended;
        std::erase_if(tasks_, [&](const auto& task) { return task.get() == running_; });
        running_ = nullptr;
        next_ = decide();
      }
    }
    driver_.run_ended(footprint_);
    // What is left on its stack may still refer to this run.
    install(nullptr);
    outcome_.digest = digest_;
    outcome_.steps = steps_;
    return std::move(outcome_);
  }

  bool has_stuck_tasks() const { return !tasks_.empty(); }

  // Scheduler
  void switch_point(const char* what, const sync::Where& where) noexcept override {
    if (uninterrupted_ > 0 || running_ == nullptr || listing_) return;
    pause(State::ready, what, where);
  }
  void spin(const sync::Where& where) noexcept override {
    if (running_ == nullptr) return;
    running_->spun_at = steps_;
    pause(State::spinning, "look again", where);
  }
  void take(const void* mutex, const sync::Where& where) noexcept override {
    if (running_ != nullptr && (uninterrupted_ == 0 || owned(mutex))) {
      running_->object = mutex;
      pause(State::taking, "lock", where);
    }
    owners_.push_back({mutex, running_});
  }
  void give(const void* mutex, bool may_switch) noexcept override {
    std::erase_if(owners_, [&](const Owner& owner) { return owner.mutex == mutex; });
    if (may_switch) switch_point("unlock", here());
  }
  bool wait(const void* condition, sync::TimePoint deadline,
            const sync::Where& where) noexcept override {
    Task& task = *running_;
    task.object = condition;
    task.deadline = deadline;
    task.notified = false;
    pause(State::sleeping, "wait", where);
    task.deadline = sync::TimePoint::max();
    return task.notified;
  }
  void notify(const void* condition, bool all) noexcept override {
    std::vector<Task*> sleepers;
    for (const auto& task : tasks_) {
      if (task->state == State::sleeping && task->object == condition && !task->notified) {
        sleepers.push_back(task.get());
      }
    }
    if (!all && sleepers.size() > 1) sleepers = {sleepers[choose(sleepers.size(), "whom to wake")]};
    for (Task* task : sleepers) task->notified = true;
    switch_point("notify", here());
  }
  sync::TimePoint now() noexcept override { return now_; }

  std::shared_ptr<sync::ScheduledTask> start(std::string name,
                                             std::function<void()> body) override {
    std::shared_ptr<Task> task = add_task(std::move(name), std::move(body));
    switch_point("start a thread", {});
    return task;
  }
  void join(sync::ScheduledTask& task, const sync::Where& where) noexcept override {
    running_->joined = &static_cast<Task&>(task);
    pause(State::joining, "join", where);
  }
  bool is_current(const sync::ScheduledTask& task) const noexcept override {
    return &task == running_;
  }

  uint64_t choose(uint64_t n, const char* what) noexcept override {
    if (n < 2) return 0;
    const uint64_t chosen = std::min(driver_.choose_value(n), n - 1);
    count_decision(chosen);
    mix(chosen);
    if (options_.trace) trace(fmt::format("  {}: {} of {}", what, chosen, n));
    return chosen;
  }
  void add_source(sync::EventSource& source) override {
    if (sources_.size() == kMaxSources) {
      throw UsageError("too many simulated devices in one run of a simulation");
    }
    sources_.push_back(&source);
  }
  void remove_source(sync::EventSource& source) noexcept override {
    // Its number stays taken, so that others keep theirs.
    std::replace(sources_.begin(), sources_.end(), &source,
                 static_cast<sync::EventSource*>(nullptr));
  }
  void touch(uint64_t object, uint64_t begin, uint64_t end, bool write) noexcept override {
    if (listing_) return;
    const Touch touch{object, begin, end, write};
    if (std::find(footprint_.begin(), footprint_.end(), touch) == footprint_.end()) {
      footprint_.push_back(touch);
    }
  }
  void note(std::string_view text) override {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    if (options_.trace) trace(fmt::format("  {}", text));
  }

 private:
  struct Owner {
    const void* mutex;
    const Task* task;
  };

  void forbid_switches(int change) noexcept override { uninterrupted_ += change; }

  std::shared_ptr<Task> add_task(std::string name, std::function<void()> body) {
    auto task = std::make_shared<Task>();
    task->actor = {Actor::Kind::task, tasks_made_++};
    task->name = std::move(name);
    give_fiber(*task, std::move(body));
    tasks_.push_back(task);
    return task;
  }

  void give_fiber(Task& task, std::function<void()> body) {
    task.fiber = std::make_unique<Fiber>([run = std::move(body)]() noexcept { run(); });
  }

  sync::Where here() const { return running_ != nullptr ? running_->where : sync::Where(); }

  bool owned(const void* mutex) const {
    return std::any_of(owners_.begin(), owners_.end(),
                       [&](const Owner& owner) { return owner.mutex == mutex; });
  }

  bool can_act(const Task& task) const {
    switch (task.state) {
      case State::ready: return true;
      case State::spinning: return useful_steps_ > task.spun_at;
      case State::taking: return !owned(task.object);
      case State::sleeping: return task.notified || task.deadline <= now_;
      case State::joining: return task.joined->state == State::ended;
      case State::ended: return false;
    }
    return false;
  }

  // The present task stops; returns when it is chosen again.
  void pause(State state, const char* what, const sync::Where& where) noexcept {
    Task& task = *running_;
    task.state = state;
    task.what = what;
    task.where = where;
    Task* const next = decide();
    if (next == &task) return;
    next_ = next;
    // Nobody can go on: this task is left here.
    const int forbidden = std::exchange(uninterrupted_, 0);
    task.fiber->suspend();
    uninterrupted_ = forbidden;
  }

  // Chooses until a task is to run, and prepares it. Null: the run is over.
  Task* decide() {
    for (;;) {
      if (tasks_.empty()) return nullptr;
      inject();
      list_actors();
      if (actors_.empty()) return stuck(Ending::deadlock);
      if (++steps_ > options_.max_steps) return stuck(Ending::endless);
      const size_t chosen = std::min(driver_.choose_actor(actors_, footprint_), actors_.size() - 1);
      if (actors_.size() > 1) count_decision(chosen);
      footprint_.clear();
      const Actor actor = actors_[chosen];
      mix(static_cast<uint64_t>(actor.kind));
      mix(actor.key);
      if (chosen < candidates_.size()) return go_on(*candidates_[chosen]);
      useful_steps_ = steps_;
      if (actor.kind == Actor::Kind::event) {
        idle_spins_ = idle_passes_ = 0;
        // Whether it can happen at all depends on every task's being stuck.
        if (held_back_) touch(kHostMemory, 0, 1, true);
        return start_event(actor);
      }
      if (actors_.size() == 1 && ++idle_passes_ > kIdlePasses) return stuck(Ending::deadlock);
      pass_time();
    }
  }

  Task* go_on(Task& task) {
    if (task.state != State::spinning) {
      useful_steps_ = steps_;
      idle_spins_ = 0;
    } else if (++idle_spins_ > kIdleSpins) {
      return stuck(Ending::endless);
    }
    if (task.actor.kind == Actor::Kind::task) touch(kHostMemory, 0, 1, true);
    if (options_.trace) trace_task(task);
    task.state = State::ready;
    return &task;
  }

  void list_actors() {
    actors_.clear();
    candidates_.clear();
    const auto add = [&](Task* task) {
      actors_.push_back(task->actor);
      candidates_.push_back(task);
    };
    if (running_ != nullptr && can_act(*running_)) add(running_);
    for (const auto& task : tasks_) {
      if (task.get() != running_ && can_act(*task)) add(task.get());
    }
    list_events(false);
    held_back_ = actors_.empty();
    if (held_back_) list_events(true);
    const bool deadline = std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
      return task->state == State::sleeping && !task->notified &&
             task->deadline != sync::TimePoint::max() && task->deadline > now_;
    });
    if (deadline) actors_.push_back({Actor::Kind::time, 0});
    if (!actors_.empty()) return;
    for (const auto& task : tasks_) {
      if (task->state == State::spinning) add(task.get());
    }
  }

  void list_events(bool held_back) {
    // Sources look at things that tasks also look at; here that is no step of anybody.
    listing_ = true;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i] == nullptr) continue;
      keys_.clear();
      if (held_back) {
        sources_[i]->list_held_back(keys_);
      } else {
        sources_[i]->list_events(keys_);
      }
      for (const uint64_t key : keys_) {
        actors_.push_back({Actor::Kind::event, (uint64_t{i} << kSourceShift) | key});
      }
    }
    listing_ = false;
  }

  Task* start_event(Actor actor) {
    auto task = std::make_shared<Task>();
    task->actor = actor;
    task->name = "device";
    sync::EventSource* const source = sources_[actor.key >> kSourceShift];
    const uint64_t key = actor.key & ((uint64_t{1} << kSourceShift) - 1);
    if (options_.trace) trace(source->describe_event(key));
    give_fiber(*task, [source, key] { source->run_event(key); });
    tasks_.push_back(task);
    return task.get();
  }

  void inject() {
    while (injected_ < injections_.size() && injections_[injected_].step <= steps_ + 1) {
      Injection& injection = injections_[injected_++];
      note(injection.name);
      add_task(injection.name, std::move(injection.action));
    }
  }

  void pass_time() {
    sync::TimePoint next = sync::TimePoint::max();
    for (const auto& task : tasks_) {
      if (task->state == State::sleeping && !task->notified) next = std::min(next, task->deadline);
    }
    now_ = std::max(now_, next);
    if (options_.trace) trace("time passes to the next deadline");
  }

  Task* stuck(Ending ending) {
    outcome_.ending = ending;
    outcome_.report = ending == Ending::deadlock
                          ? "deadlock: no task can go on, and nothing is left to happen"
                          : "endless: tasks go on for ever without getting anywhere";
    for (const auto& task : tasks_) {
      outcome_.report += fmt::format("\n  task '{}' is at {}", task->name, position_of(*task));
    }
    return nullptr;
  }

  std::string position_of(const Task& task) const {
    std::string position = fmt::format("{} ({})", task.what, to_string(task.where));
    if (task.state == State::taking) {
      for (const Owner& owner : owners_) {
        if (owner.mutex == task.object) {
          position += fmt::format(", which task '{}' holds", owner.task->name);
        }
      }
    } else if (task.state == State::joining) {
      position += fmt::format(" of task '{}'", task.joined->name);
    }
    return position;
  }

  // A stretch of one task is one line: where it began, and how far it got.
  void trace_task(const Task& task) {
    std::string place = fmt::format("{} ({})", task.what, to_string(task.where));
    if (traced_ == task.actor) {
      outcome_.trace.back() = fmt::format("{} ... {}", stretch_, place);
      return;
    }
    trace(fmt::format("task '{}': {}", task.name, place));
    stretch_ = outcome_.trace.back();
    traced_ = task.actor;
  }
  void trace(std::string line) {
    outcome_.trace.push_back(std::move(line));
    traced_.reset();
  }

  void count_decision(uint64_t chosen) {
    if (chosen > 0) outcome_.choices.emplace(outcome_.decisions, chosen);
    ++outcome_.decisions;
  }
  void mix(uint64_t value) noexcept {
    digest_ = (digest_ ^ value) * 0x9E3779B97F4A7C15ULL;
    digest_ ^= digest_ >> 29;
  }

  Driver& driver_;
  std::vector<Injection> injections_;
  size_t injected_ = 0;
  Options options_;
  Outcome outcome_;

  std::vector<std::shared_ptr<Task>> tasks_;  // that have not ended, oldest first
  Task* running_ = nullptr;
  Task* next_ = nullptr;
  uint64_t tasks_made_ = 0;
  std::vector<Owner> owners_;
  std::vector<sync::EventSource*> sources_;
  sync::TimePoint now_{std::chrono::hours(1)};
  int uninterrupted_ = 0;
  bool listing_ = false;
  bool held_back_ = false;  // the events among the actors are held back

  std::vector<Actor> actors_;
  std::vector<Task*> candidates_;
  std::vector<uint64_t> keys_;
  Footprint footprint_;

  uint64_t steps_ = 0;
  uint64_t useful_steps_ = 0;  // the newest step that was no mere look
  uint64_t idle_spins_ = 0;
  uint64_t idle_passes_ = 0;
  std::optional<Actor> traced_;  // whose stretch the last line of the trace is
  std::string stretch_;
  uint64_t digest_ = 0x486F6C6466617374ULL;
};

}  // namespace

Outcome simulate(Driver& driver, const std::function<void()>& body,
                 std::vector<Injection> injections, const Options& options) {
  // Fibers, once made, belong to the thread that made them, and there is one pool of them.
  static std::atomic<bool> busy{false};
  if (sync::Scheduler::current() == nullptr && busy.exchange(true)) {
    throw UsageError("one simulation runs at a time in a process; use processes for more");
  }
  struct Done {
    ~Done() {
      if (sync::Scheduler::current() == nullptr) busy.store(false);
    }
  } const done;
  const auto run = std::make_shared<Run>(driver, std::move(injections), options);
  Outcome outcome = (*run)(body);
  // Stacks that were left point into it.
  if (run->has_stuck_tasks()) {
    leave_alive(run);
    Fiber::note_left_stacks();
  }
  return outcome;
}

}  // namespace holdfast::simulation
