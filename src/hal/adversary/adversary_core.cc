#include "holdfast/hal/adversary/adversary_core.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::hal {
namespace {

// A key: the queue, the list's number on it, and the command's place in the list; all ones stand
// for the list's Point becoming visible.
constexpr unsigned kQueueShift = 40;
constexpr unsigned kListShift = 24;
constexpr uint64_t kStepMask = (uint64_t{1} << kListShift) - 1;
constexpr uint64_t kListMask = (uint64_t{1} << (kQueueShift - kListShift)) - 1;

// Without a simulation: how often the thread looks whether something outside the device happened.
constexpr sync::Duration kLookAgain = std::chrono::milliseconds(1);

// Opens the door that wrapping queues have to their inner one.
class Door : public Queue {
 public:
  using Queue::hand_on;
};

const CommandList& commands_of(const CommandList& list) {
  return list.program() != nullptr ? list.program()->list() : list;
}

std::string name_of(const Command& command, size_t index) {
  std::string text = fmt::format("command {} ({}", index, to_string(command.kind));
  if (command.kind == CommandKind::dispatch) text += fmt::format(" '{}'", command.pipeline->name());
  if (!command.label().empty()) text += fmt::format(", '{}'", command.label());
  return text + ")";
}

}  // namespace

AdversaryCore::AdversaryCore(Ref<Device> inner, AdversaryOptions options)
    : inner_(std::move(inner)),
      options_(std::move(options)),
      random_(options_.seed),
      first_known_(ResourceId::next()) {
  for (const Ref<Queue>& queue : inner_->queues()) {
    QueueState state;
    state.inner = queue;
    state.timeline = make_ref<HostTimeline>(inner_->id(), queue->name());
    queues_.push_back(std::move(state));
  }
}

AdversaryCore::~AdversaryCore() = default;

void AdversaryCore::start() {
  scheduler_ = sync::Scheduler::current();
  if (scheduler_ != nullptr) {
    scheduler_->add_source(*this);
    return;
  }
  thread_ = sync::Thread("hf-adversary", [self = shared_from_this()] { self->run_alone(); });
}

void AdversaryCore::stop(sync::Deadline deadline) {
  if (scheduler_ != nullptr) {
    if (sync::Scheduler::current() == scheduler_) scheduler_->remove_source(*this);
    return;
  }
  sync::Thread thread;
  bool ended = false;
  {
    sync::Lock lock(idle_mutex_);
    ending_ = true;
    thread = std::move(thread_);
    idle_changed_.notify_all();
    if (thread.joinable() && !thread.is_current()) {
      ended = idle_changed_.wait_until(lock, deadline, [&] {
        idle_mutex_.assert_held();
        return ended_;
      });
    }
  }
  if (!ended) thread.detach();
}

uint64_t AdversaryCore::choose(uint64_t n, const char* what) noexcept {
  if (n < 2) return 0;
  if (scheduler_ != nullptr) return scheduler_->choose(n, what);
  const sync::LeafLock lock(mutex_);
  random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return (random_ >> 33) % n;
}

void AdversaryCore::note(const std::string& text) {
  if (scheduler_ != nullptr) scheduler_->note(text);
}

// Work comes in

Failure AdversaryCore::refusal_locked(const Work& work) const {
  if (lost_ || !refusing_) return lost_;
  return Failure(ErrorCode::closed, fmt::format("{} is closed", work.point.timeline->name()));
}

Failure AdversaryCore::missing_locked(const Work& work) {
  Failure missing;
  const auto check = [&](const BoundRange& bound) {
    mutex_.assert_held();
    if (missing || !bound.id || bound.id < first_known_ || alive_.contains(bound.id)) return;
    missing = Failure(ErrorCode::usage,
                      fmt::format("{} needs the allocation with id {}, which is destroyed",
                                  work.list->describe(), bound.id.value));
  };
  for (const Command& command : commands_of(*work.list)) {
    for (const BoundRange& bound : command.bindings()) {
      if (bound.slot < 0) check(bound);
    }
  }
  for (const BoundRange& bound : work.list->slots()) check(bound);
  return missing;
}

Failure AdversaryCore::accept(size_t queue, const Work& work) {
  auto list = std::make_shared<AdversaryList>();
  list->work = &work;
  list->damage = std::make_unique<ListDamage>(work);
  list->value = work.point.value.value;
  {
    const sync::LeafLock lock(mutex_);
    if (Failure refusal = refusal_locked(work)) return refusal;
    if (options_.faults.hits(FaultKind::submit, ++submits_)) {
      return Failure(ErrorCode::out_of_memory,
                     fmt::format("the adversary refuses submission {} (fault submit@{}), {}",
                                 submits_, submits_, work.list->describe()));
    }
    if (Failure missing = missing_locked(work)) return missing;
  }
  uint32_t wave = 0;
  size_t index = 0;
  for (const Command& command : commands_of(*work.list)) {
    if (command.kind == CommandKind::barrier) {
      ++wave;
    } else if (!command.is_mark()) {
      list->steps.push_back({&command, index++, wave, false});
      if (command.pipeline_id) list->resources.push_back(command.pipeline_id);
      for (const BoundRange& bound : command.bindings()) {
        const AdversaryPlace place = place_of(*work.list, bound);
        list->resources.push_back(place.id);
        list->buffers.push_back(place.allocation->buffer()->id());
      }
    }
  }
  if (work.list->program() != nullptr) list->resources.push_back(work.list->program()->id());
  list->steps_left = list->steps.size();
  {
    const sync::LeafLock lock(mutex_);
    // Either may have come meanwhile; what is pushed after that would never be taken out.
    if (Failure refusal = refusal_locked(work)) return refusal;
    QueueState& q = queues_[queue];
    list->number = q.numbered++;
    q.accepted = work.point.value.value;
    q.lists.push_back(std::move(list));
  }
  wake();
  return {};
}

Failure AdversaryCore::allocation_fault(const std::string& name) {
  const sync::LeafLock lock(mutex_);
  if (!options_.faults.hits(FaultKind::alloc, ++allocations_)) return {};
  return Failure(ErrorCode::out_of_memory,
                 fmt::format("the adversary refuses buffer {} (fault alloc@{}), '{}'", allocations_,
                             allocations_, name));
}

Failure AdversaryCore::compile_fault(std::string_view kernel) {
  uint64_t number = 0;
  {
    const sync::LeafLock lock(mutex_);
    number = ++compiles_;
  }
  if (!options_.faults.hits(FaultKind::compile, number)) return {};
  note("a compile fails");
  return Failure(ErrorCode::environment,
                 fmt::format("the adversary fails compile {} (fault compile@{}), of kernel '{}'",
                             number, number, kernel));
}

Failure AdversaryCore::lost() const {
  const sync::LeafLock lock(mutex_);
  return lost_;
}

void AdversaryCore::refuse_new_work() {
  const sync::LeafLock lock(mutex_);
  refusing_ = true;
}

void AdversaryCore::memory_goes() {
  const sync::LeafLock lock(mutex_);
  memory_gone_ = true;
}

TimelineValue AdversaryCore::newest(size_t queue) const {
  const sync::LeafLock lock(mutex_);
  return {queues_[queue].accepted};
}

void AdversaryCore::lose(Failure cause) {
  {
    const sync::LeafLock lock(mutex_);
    if (!lost_) lost_ = std::move(cause);
  }
  event_over();
  wake();
}

// What may happen

bool AdversaryCore::has_happened_locked(const Wait& wait, ListFailure& failure) const {
  if (!wait.point.timeline) return true;
  const uint64_t value = wait.point.value.value;
  const auto ours = std::find_if(queues_.begin(), queues_.end(), [&](const QueueState& q) {
    return q.timeline == wait.point.timeline;
  });
  bool happened = false;
  if (ours != queues_.end() && ours->executed_value >= value) {
    happened = true;
    for (const auto& other : ours->lists) {
      if (other->value == value) failure = other->failure;
    }
  }
  if (failure) return true;
  const PointState state = wait.point.query();
  if (state == PointState::failed) failure = {wait.point.failure(), wait.point.damage()};
  return happened || state != PointState::pending;
}

bool AdversaryCore::start_locked(AdversaryList& list) const {
  if (list.started) return true;
  const std::span<const Wait> waits = list.work->waits;
  std::vector<std::pair<size_t, ListFailure>> failed;
  for (size_t i = 0; i < waits.size(); ++i) {
    ListFailure failure;
    if (!has_happened_locked(waits[i], failure)) return false;
    if (failure) failed.emplace_back(i, std::move(failure));
  }
  list.started = true;
  for (const auto& [wait, failure] : failed) list.damage->wait_failed(wait, failure);
  if (!list.damage->forbids_all()) begin_wave_locked(list, 0);
  return true;
}

bool AdversaryCore::begin_wave_locked(AdversaryList& list, size_t first) {
  while (first < list.steps.size()) {
    list.wave_begin = first;
    list.wave = list.steps[first].wave;
    bool any = false;
    for (; first < list.steps.size() && list.steps[first].wave == list.wave; ++first) {
      AdversaryList::Step& step = list.steps[first];
      step.done = !list.damage->enter(*step.command);
      any = any || !step.done;
      if (step.done) --list.steps_left;
    }
    if (any) return true;
  }
  return false;
}

// A Point does not resolve before those that its list waits for.
bool AdversaryCore::may_be_seen_locked(const AdversaryList& list) const {
  return std::none_of(list.work->waits.begin(), list.work->waits.end(),
                      [](const Wait& wait) { return wait.point.pending(); });
}

void AdversaryCore::finish_locked(QueueState& queue, AdversaryList& list) {
  list.executed = true;
  list.failure = list.damage->finish();
  list.damage.reset();
  queue.executed_value = list.value;
}

void AdversaryCore::list_locked(size_t queue, std::vector<Key>& keys) {
  QueueState& q = queues_[queue];
  const auto key_of = [&](const AdversaryList& list, uint64_t step) {
    return (uint64_t{queue} << kQueueShift) | ((list.number & kListMask) << kListShift) | step;
  };
  if (!q.lists.empty()) {
    const AdversaryList& oldest = *q.lists.front();
    if (oldest.executed && !oldest.publishing && may_be_seen_locked(oldest)) {
      keys.push_back(key_of(oldest, kStepMask));
    }
  }
  for (const auto& list : q.lists) {
    if (list->executed) continue;
    if (!start_locked(*list)) return;
    if (list->damage->forbids_all() || list->steps_left == 0) {
      finish_locked(q, *list);
      list_locked(queue, keys);
      return;
    }
    // A command that blocks inside the inner device keeps its queue.
    if (q.busy) return;
    for (size_t i = list->wave_begin; i < list->steps.size(); ++i) {
      const AdversaryList::Step& step = list->steps[i];
      if (step.wave != list->wave) break;
      if (!step.done) keys.push_back(key_of(*list, i));
    }
    return;
  }
}

void AdversaryCore::list_events(std::vector<Key>& keys) {
  const sync::LeafLock lock(mutex_);
  if (lost_) return;
  for (size_t i = 0; i < queues_.size(); ++i) {
    if (!queues_[i].held_back) list_locked(i, keys);
  }
}

void AdversaryCore::list_held_back(std::vector<Key>& keys) {
  const sync::LeafLock lock(mutex_);
  if (lost_) return;
  for (size_t i = 0; i < queues_.size(); ++i) {
    if (queues_[i].held_back) list_locked(i, keys);
  }
  if (!keys.empty() && scheduler_ != nullptr) scheduler_->note("forced: everybody waits");
}

AdversaryList* AdversaryCore::find_locked(Key key) const {
  const QueueState& q = queues_[key >> kQueueShift];
  const uint64_t number = (key >> kListShift) & kListMask;
  for (const auto& list : q.lists) {
    if ((list->number & kListMask) == number) return list.get();
  }
  return nullptr;
}

std::string AdversaryCore::describe_event(Key key) const {
  const sync::LeafLock lock(mutex_);
  const QueueState& q = queues_[key >> kQueueShift];
  const AdversaryList* list = find_locked(key);
  if (list == nullptr) return "something that is over";
  const uint64_t step = key & kStepMask;
  if (step == kStepMask)
    return fmt::format("{} @ {} becomes visible", q.timeline->name(), list->value);
  const AdversaryList::Step& s = list->steps[step];
  return fmt::format("{} runs {} of {}", q.timeline->name(), name_of(*s.command, s.index),
                     list->work->list->describe());
}

// It happens

void AdversaryCore::run_event(Key key) {
  const auto self = shared_from_this();  // the device may be dropped while an event is under way
  std::shared_ptr<AdversaryList> list;
  uint64_t event = 0;
  bool lose_now = false;
  {
    const sync::LeafLock lock(mutex_);
    AdversaryList* found = find_locked(key);
    if (found == nullptr || lost_) return;
    for (const auto& pending : queues_[key >> kQueueShift].lists) {
      if (pending.get() == found) list = pending;
    }
    event = ++events_;
    // Which one a fault hits depends on the order of them all.
    if (!options_.faults.empty() && scheduler_ != nullptr) {
      scheduler_->touch(Touched::fault_counters, 0, 1, true);
    }
    lose_now = options_.faults.hits(FaultKind::lost, event);
    if (!lose_now) ++running_;
  }
  if (lose_now) {
    note("the device is lost");
    lose(Failure(ErrorCode::device_lost,
                 fmt::format("the adversary lost the device (fault lost@{})", event)));
    return;
  }
  const size_t queue = key >> kQueueShift;
  const uint64_t step = key & kStepMask;
  if (step == kStepMask) {
    publish(queue);
  } else {
    // A command is one step, however many locks the inner device takes.
    const sync::Scheduler::Uninterrupted whole;
    execute(queue, *list, step);
  }
  {
    const sync::LeafLock lock(mutex_);
    --running_;
  }
  event_over();
}

void AdversaryCore::publish(size_t queue) {
  std::shared_ptr<AdversaryList> list;
  Ref<HostTimeline> timeline;
  {
    const sync::LeafLock lock(mutex_);
    QueueState& q = queues_[queue];
    if (q.lists.empty() || !q.lists.front()->executed || q.lists.front()->publishing) return;
    list = q.lists.front();
    timeline = q.timeline;
    list->publishing = true;
  }
  if (list->failure) {
    timeline->fail({list->value}, list->failure.cause, list->failure.damage);
  } else {
    timeline->signal({list->value});
  }
  // Once its Point is resolved the list may be gone, so nothing of it is looked at any more.
  const sync::LeafLock lock(mutex_);
  std::deque<std::shared_ptr<AdversaryList>>& lists = queues_[queue].lists;
  if (!lists.empty() && lists.front() == list) lists.pop_front();
}

void AdversaryCore::execute(size_t queue, AdversaryList& list, size_t step) {
  const Command& command = *list.steps[step].command;
  uint64_t number = 0;
  {
    const sync::LeafLock lock(mutex_);
    if (list.executed || list.steps[step].done || queues_[queue].busy) return;
    list.steps[step].done = true;
    queues_[queue].busy = true;
    number = ++commands_;
  }
  Failure failure;
  if (options_.faults.hits(FaultKind::command, number)) {
    note("a command fails");
    failure = Failure(
        ErrorCode::execution,
        fmt::format("the adversary failed {} of {} (fault command@{})",
                    name_of(command, list.steps[step].index), list.work->list->describe(), number));
  } else {
    scribble_new_lives(queue, list, command);
    failure = run_now(queue, *list.work->list, &command, list.work->queue);
  }
  const sync::LeafLock lock(mutex_);
  queues_[queue].busy = false;
  if (list.executed) return;
  if (failure) list.damage->fail(command, failure);
  --list.steps_left;
  size_t next = list.wave_begin;
  for (; next < list.steps.size() && list.steps[next].wave == list.wave; ++next) {
    if (!list.steps[next].done) return;
  }
  if (!begin_wave_locked(list, next)) finish_locked(queues_[queue], list);
}

// Runs it now, and returns when it is done. Only from the one event that a queue has under way.
Failure AdversaryCore::run_now(size_t queue, const CommandList& list, const Command* only,
                               const Queue* user) {
  Ref<Queue> inner;
  Work work;
  {
    const sync::LeafLock lock(mutex_);
    QueueState& q = queues_[queue];
    inner = q.inner;
    work = {&list, only, Point{inner->timeline(), {++q.inner_value}}, {}, user};
  }
  if (Failure refused = Door::hand_on(*inner, work)) {
    const sync::LeafLock lock(mutex_);
    --queues_[queue].inner_value;
    return refused;
  }
  inner->timeline()->note_issued(work.point.value);
  inner->timeline()->wait(work.point.value, sync::Deadline::never());
  return work.point.failure();
}

void AdversaryCore::event_over() {
  std::vector<KeptResource> resources;
  std::vector<Ref<Buffer>> buffers;
  std::vector<std::pair<Ref<HostTimeline>, Failure>> ended;
  {
    const sync::LeafLock lock(mutex_);
    if (lost_ && running_ == 0 && !timelines_ended_) {
      timelines_ended_ = true;
      for (QueueState& q : queues_) {
        q.lists.clear();
        ended.emplace_back(q.timeline, lost_);
      }
    }
    for (size_t i = kept_resources_.size(); i-- > 0;) {
      if (needed_locked((*kept_resources_[i]).id())) continue;
      resources.push_back(std::move(kept_resources_[i]));
      kept_resources_.erase(kept_resources_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const bool idle = std::all_of(queues_.begin(), queues_.end(),
                                  [](const QueueState& q) { return q.lists.empty(); });
    if (idle) buffers.swap(kept_buffers_);
  }
  for (auto& [timeline, cause] : ended) timeline->fail_all_pending(cause);
}

// The script

void AdversaryCore::set_held_back(size_t queue, bool held) {
  const sync::LeafLock lock(mutex_);
  queues_[queue].held_back = held;
}

bool AdversaryCore::step(size_t queue) {
  std::vector<Key> keys;
  {
    // Looking at Points is a step elsewhere, and not while the lock is held.
    const sync::Scheduler::Uninterrupted looking;
    const sync::LeafLock lock(mutex_);
    if (!lost_) list_locked(queue, keys);
  }
  if (keys.empty()) return false;
  run_event(keys[choose(keys.size(), "which step")]);
  return true;
}

// Without a simulation

void AdversaryCore::wake() {
  if (scheduler_ != nullptr) return;
  const sync::Lock lock(idle_mutex_);
  something_new_ = true;
  idle_changed_.notify_all();
}

void AdversaryCore::run_alone() {
  std::vector<Key> keys;
  for (;;) {
    keys.clear();
    list_events(keys);
    if (!keys.empty()) {
      run_event(keys[choose(keys.size(), "what next")]);
      continue;
    }
    sync::Lock lock(idle_mutex_);
    if (ending_) {
      ended_ = true;
      idle_changed_.notify_all();
      return;
    }
    // A list may wait for something outside the device, which tells nobody.
    bool waiting = false;
    {
      const sync::LeafLock leaf(mutex_);
      waiting = !lost_ && std::any_of(queues_.begin(), queues_.end(),
                                      [](const QueueState& q) { return !q.lists.empty(); });
    }
    const auto changed = [&] {
      idle_mutex_.assert_held();
      return ending_ || something_new_;
    };
    if (waiting) {
      idle_changed_.wait_until(lock, sync::Deadline::after(kLookAgain), changed);
    } else {
      idle_changed_.wait(lock, changed);
    }
    something_new_ = false;
  }
}

}  // namespace holdfast::hal
