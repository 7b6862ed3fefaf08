#include "holdfast/runtime/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cassert>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/unheld.h"
#include "holdfast/runtime/core.h"

namespace holdfast::runtime {
namespace {

// How often a recorder lets others overtake it before it takes precedence.
constexpr int kPatience = 4;

// Adds to what was told only where the union is one range: a hull would claim bytes nobody looked
// at.
void extend_told(ByteRange& told, ByteRange range) {
  const bool touch = range.offset <= told.end() && told.offset <= range.end();
  told = touch && !told.empty() ? told.hull(range) : range;
}

// Whether the commands, before anything else reads it, write all of what `read` reads.
bool is_written(std::span<const PendingCommand> commands, const hal::Binding& read) {
  RangeSet written;
  size_t pieces = 0;
  for (const PendingCommand& command : commands) {
    for (const hal::Binding& b : command.bindings) {
      if (b.allocation != read.allocation || b.access != hal::Access::write) continue;
      // A set that has joined ranges may claim too much.
      if (++pieces > RangeSet::kMaxRanges) return false;
      written.add(b.range);
    }
  }
  return written.contains(read.range);
}

bool waits_outside(const std::vector<hal::Wait>& waits) {
  return std::any_of(waits.begin(), waits.end(), [](const hal::Wait& wait) {
    return wait.point.timeline && !wait.point.timeline->device();
  });
}

}  // namespace

// One use that a history has not been told of in this list.
struct Recorder::Access {
  hal::Allocation* allocation = nullptr;
  ByteRange range;
  hal::Access access = hal::Access::read;
  HazardTracker::Entry* entry = nullptr;  // null for a replay
  // An earlier command of the same transaction has written all of it: nobody else's failure can be
  // read here.
  bool freshly_written = false;
  hal::AccessHistory::Extent extent = hal::AccessHistory::Extent::exact;
};

// A list taken out of the recorder, to be submitted under the queue's turn.
struct Recorder::Detached {
  Detached(hal::CommandList l, hal::ListWaits w, std::vector<hal::Wait> e)
      : list(std::move(l)),
        ticket(list.ticket()),
        waits(std::move(w)),
        explicit_waits(std::move(e)) {}

  hal::CommandList list;
  Ref<hal::Ticket> ticket;
  hal::ListWaits waits;
  std::vector<hal::Wait> explicit_waits;
};

struct Recorder::State {
  explicit State(hal::CommandList first) : list(std::move(first)) {}

  mutable sync::Mutex mutex{sync::LockOrder::recorder};  // guards all below
  hal::CommandList list HOLDFAST_GUARDED_BY(mutex);
  HazardTracker hazards HOLDFAST_GUARDED_BY(mutex);
  bool barrier_due HOLDFAST_GUARDED_BY(mutex) = false;
  // Whether some history names the list's Ticket: then it must be submitted or abandoned, commands
  // or not.
  bool told HOLDFAST_GUARDED_BY(mutex) = false;
  bool ended HOLDFAST_GUARDED_BY(mutex) = false;
  hal::ListWaits waits HOLDFAST_GUARDED_BY(mutex);
  std::vector<hal::Wait> explicit_waits
      HOLDFAST_GUARDED_BY(mutex);  // asked for by the user; kept until a list took them along
  hal::Point last_point HOLDFAST_GUARDED_BY(mutex);
  Failure unheard HOLDFAST_GUARDED_BY(
      mutex);  // of a list that was refused when another stream's need submitted it

  // Written under the mutex, read by anybody.
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> barriers{0};
  std::atomic<uint64_t> holds{0};
};

Recorder::Recorder(std::shared_ptr<Core> core, Ref<hal::Queue> queue, std::string name, bool yields)
    : core_(std::move(core)),
      yields_(yields),
      queue_(std::move(queue)),
      name_(std::move(name)),
      lane_(core_->new_lane()),
      state_(std::make_unique<State>(new_list())) {
  core_->allocator().add_lane(lane_);
}

Recorder::~Recorder() {
  if (core_->forked()) return;
  abandon(Failure(ErrorCode::closed,
                  fmt::format("stream '{}' was dropped before it submitted it", name_)));
  core_->allocator().forget_lane(lane_);
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::identity_by_recycled_address)) core_->vacate_lane(lane_);
#endif
}

hal::CommandList Recorder::new_list() const {
  return {core_->device().info(), name_, lane_, core_->take_list_storage()};
}

void Recorder::check(const PendingCommand& command) const {
  const hal::DeviceInfo& device = core_->device().info();
  const hal::CommandChecks checks(device.id, device.max_groups, {"stream", name_});
  switch (command.kind) {
    case hal::CommandKind::dispatch:
      checks.dispatch(*command.pipeline, command.bindings, command.parameters, command.groups,
                      command.label);
      break;
    case hal::CommandKind::copy:
      checks.copy(command.bindings[0], command.bindings[1], command.label);
      break;
    default: checks.bindings(command.bindings, command.label); break;
  }
  const bool slots = std::any_of(command.bindings.begin(), command.bindings.end(),
                                 [](const hal::Binding& b) { return b.slot >= 0; });
  if (slots || command.parameters.from_replay) {
    throw UsageError(
        fmt::format("stream '{}' records no slots and no replay parameters; use a "
                    "ProgramRecorder",
                    name_));
  }
}

void Recorder::record(std::span<const PendingCommand> commands, Ref<hal::Ticket>* ticket) {
  core_->check_usable();
  State& s = *state_;
  size_t binding_count = 0;
  size_t extra_bytes = 0;
  for (const PendingCommand& command : commands) {
    if (!command.checked) check(command);
    binding_count += command.bindings.size();
    extra_bytes += command.parameters.bytes.size() + command.label.size();
  }
  boost::container::small_vector<HazardTracker::Entry*, 32> entries(binding_count,
                                                                    boost::container::default_init);
  boost::container::small_vector<Access, 8> untold;
  std::optional<Core::Precedence> precedence;
  for (int round = 0;; ++round) {
    let_others_pass(round, precedence);
    sync::Lock lock(s.mutex);
    if (s.ended) closed_failure().raise();
    if (s.hazards.reserve(binding_count)) s.barrier_due = true;
    s.list.reserve(commands.size(), binding_count, extra_bytes);

    untold.clear();
    size_t at = 0;
    for (size_t c = 0; c < commands.size(); ++c) {
      for (const hal::Binding& b : commands[c].bindings) {
        HazardTracker::Entry& entry = s.hazards.entry(b.allocation->id().value);
        entries[at++] = &entry;
        // A list that wrote bytes needs no entry as a reader of them: whoever must come after it
        // comes after the writer.
        const bool told = entry.told_version == b.allocation->history_version() &&
                          (entry.told_written.contains(b.range) ||
                           (!hal::writes(b.access) && entry.told_read.contains(b.range)));
        if (told || b.range.empty() || hal::is_left_unheld(b)) continue;
        const bool fresh = c > 0 && hal::reads(b.access) && is_written(commands.first(c), b);
        untold.push_back({b.allocation, b.range, b.access, &entry, fresh});
      }
    }
    if (!untold.empty()) {
      const std::span<const Access> accesses(untold.data(), untold.size());
      const bool told_before = std::exchange(s.told, true);
      const auto obstacles = tell_histories(accesses, s.list.ticket(), s.waits);
      if (!obstacles.none()) {
        s.told = told_before;
        lock.unlock();
        overcome(obstacles, accesses);
        continue;
      }
    }
    at = 0;
    for (const PendingCommand& command : commands) {
      append_locked(command, {entries.data() + at, command.bindings.size()});
      at += command.bindings.size();
    }
    if (ticket != nullptr) *ticket = s.list.ticket();
    return;
  }
}

void Recorder::let_others_pass(int round, std::optional<Core::Precedence>& precedence) {
  if (precedence || !yields_) return;
  if (round < kPatience) {
    core_->let_others_pass();
  } else {
    precedence.emplace(*core_);
  }
}

Failure Recorder::closed_failure() const {
  return Failure(ErrorCode::closed, fmt::format("stream '{}' is closed", name_));
}

hal::AccessHistory::Obstacles Recorder::tell_histories(std::span<const Access> accesses,
                                                       const Ref<hal::Ticket>& own,
                                                       hal::ListWaits& waits) {
  HistoryLocks& locks = core_->history_locks();
  if (accesses.size() == 1) {
    const sync::Lock lock(locks.of(*accesses[0].allocation));
    return tell_histories_locked(accesses, own, waits);
  }
  HistoryLocks::Set set(locks);
  for (const Access& a : accesses) set.add(*a.allocation);
  // All of them at once: what was found for one access must still hold when the last is added.
  return locks.with(set, [&] { return tell_histories_locked(accesses, own, waits); });
}

hal::AccessHistory::Obstacles Recorder::tell_histories_locked(std::span<const Access> accesses,
                                                              const Ref<hal::Ticket>& own,
                                                              hal::ListWaits& waits) {
  hal::AccessHistory::Obstacles obstacles;
  for (const Access& a : accesses) {
    // What was freshly written is ordered by that write; nobody else's content is read.
    const hal::Access wish = a.freshly_written ? hal::Access::write : a.access;
    a.allocation->history().find_obstacles(a.range, wish, lane_, own.get(), obstacles,
                                           [&] { return a.allocation->describe(); });
  }
  if (!obstacles.none()) return obstacles;
  for (const Access& a : accesses) {
    a.allocation->history().add_access(a.range, a.access, own, waits, a.extent);
    a.allocation->bump_history_version();
  }
  for (const Access& a : accesses) {
    if (a.entry == nullptr) continue;
    a.entry->told_version = a.allocation->history_version();
    if (hal::reads(a.access)) extend_told(a.entry->told_read, a.range);
    if (hal::writes(a.access)) extend_told(a.entry->told_written, a.range);
  }
  return obstacles;
}

void Recorder::overcome(const hal::AccessHistory::Obstacles& obstacles,
                        std::span<const Access> accesses) {
  obstacles.refusal.raise_if_any();
  for (const Ref<hal::Ticket>& ticket : obstacles.open) core_->submit_open_list(*ticket);
  if (!obstacles.readback_under_way) return;
  for (const Access& a : accesses) core_->wait_for_readbacks(*a.allocation, a.range, a.access);
}

void Recorder::append_locked(const PendingCommand& command,
                             std::span<HazardTracker::Entry*> entries) {
  State& s = *state_;
  s.mutex.assert_held();
  const hal::ListId list = s.list.id();
  bool barrier = s.barrier_due;
  for (size_t i = 0; i < entries.size(); ++i) {
    const hal::Binding& b = command.bindings[i];
    const hal::LastUse earlier = b.allocation->earlier_life();
    barrier = barrier || s.hazards.conflicts(*entries[i], b.range, b.access) ||
              (earlier.in(list) && earlier.reaches(s.hazards.wave()));
  }
  if (barrier && !s.list.empty()) {
    s.list.barrier();
    s.hazards.next_wave();
    s.barriers.store(s.barriers.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  s.barrier_due = false;
  const hal::LastUse here(list, s.hazards.wave());
  for (size_t i = 0; i < entries.size(); ++i) {
    const hal::Binding& b = command.bindings[i];
    s.hazards.add(*entries[i], b.range, b.access);
    b.allocation->set_last_use(here);
    if (b.allocation->earlier_life().in(list)) b.allocation->set_earlier_life({});
  }
  const size_t held_before = s.list.holds().size();
  switch (command.kind) {
    case hal::CommandKind::dispatch:
      s.list.dispatch_checked(*command.pipeline, command.bindings, command.parameters,
                              command.groups, command.label);
      break;
    case hal::CommandKind::copy:
      s.list.copy(command.bindings[0], command.bindings[1], command.label);
      break;
    case hal::CommandKind::fill:
      s.list.fill(command.bindings[0], command.fill_value, command.label);
      break;
    case hal::CommandKind::native:
      s.list.native(command.native, command.bindings, command.label);
      break;
    default: assert(false);
  }
  s.commands.store(s.commands.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  s.holds.store(s.holds.load(std::memory_order_relaxed) + s.list.holds().size() - held_before,
                std::memory_order_relaxed);
}

void Recorder::wait_for(const hal::Wait& wait) {
  core_->check_usable();
  if (!wait.point.timeline) return;
  const hal::DeviceId owner = wait.point.timeline->device();
  if (owner && owner != core_->device().id()) {
    // A device that is gone has resolved its Points; a living one's must be exported.
    if (wait.point.pending()) {
      throw UsageError(
          fmt::format("stream '{}' cannot wait for {}, which belongs to another device; "
                      "export that Point and import it here",
                      name_, hal::to_string(wait.point)));
    }
    if (wait.kind == hal::WaitKind::data) wait.point.failure().raise_if_any();
    return;
  }
  if (!wait.point.timeline->was_issued(wait.point.value)) {
    throw UsageError(
        fmt::format("stream '{}' cannot wait for {}: no list with that value was submitted yet",
                    name_, hal::to_string(wait.point)));
  }
  submit_quietly();
  sync::Lock lock(state_->mutex);
  auto& waits = state_->explicit_waits;
  if (std::find(waits.begin(), waits.end(), wait) == waits.end()) waits.push_back(wait);
}

void Recorder::mark_lives(const hal::Allocation& born, hal::ResourceId ended) {
  sync::Lock lock(state_->mutex);
  if (state_->ended) return;
  state_->list.mark_death(ended, born.buffer()->id(), {born.offset(), born.size()});
  state_->list.mark_birth(born);
}

Recorder::Detached Recorder::detach_locked() {
  State& s = *state_;
  s.mutex.assert_held();
  Detached detached(std::move(s.list), std::exchange(s.waits, {}), std::move(s.explicit_waits));
  s.explicit_waits.clear();
  s.told = false;
  s.barrier_due = false;
  s.hazards.start_list();
  return detached;
}

// Submits, with the turn held; a refused list is abandoned, and what the user asked it to wait for
// goes to the next one.
Failure Recorder::submit(const hal::Queue::Turn& turn, Detached& detached, Hearer hearer) {
  // Those of the histories come first: they are known by their place.
  std::vector<hal::Wait> all = std::move(detached.waits.waits);
  all.insert(all.end(), detached.explicit_waits.begin(), detached.explicit_waits.end());
  // Counted before anybody can find the list in flight and decide whether to wait for it.
  const bool outside = waits_outside(all);
  if (outside) core_->count_outside_wait(1);
  Result<hal::Point> point =
      queue_->submit(turn, detached.list, std::move(all), std::move(detached.waits.bytes));
  if (!point && outside) core_->count_outside_wait(-1);
  State& s = *state_;
  sync::Lock lock(s.mutex);
  if (point) {
    s.last_point = std::move(point).value();
#ifdef HOLDFAST_ABLATIONS
    lock.unlock();
    if (ablated(Ablation::destroyed_at_submit)) {
      const Allocator::Garbage garbage = core_->allocator().release_deferred_ranges();
    }
#endif
    return {};
  }
  s.explicit_waits.insert(s.explicit_waits.begin(), detached.explicit_waits.begin(),
                          detached.explicit_waits.end());
  // Before the turn is given back: whoever finds nothing to submit then must find this.
  if (hearer == Hearer::next_flush && !s.unheard) s.unheard = point.failure();
  lock.unlock();
  detached.list.abandon(point.failure());
  return point.failure();
}

Result<hal::Point> Recorder::flush() {
  Result<hal::Point> flushed = submit_open_list(Hearer::caller);
  sync::Lock lock(state_->mutex);
  if (flushed && state_->unheard) return std::exchange(state_->unheard, {});
  return flushed;
}

Result<hal::Point> Recorder::submit_open_list(Hearer hearer) {
  core_->check_usable();
  State& s = *state_;
  std::optional<Detached> detached;
  Failure refused;
  {
    const hal::Queue::Turn turn = core_->waits().take_turn(*queue_);
    {
      sync::Lock lock(s.mutex);
      if (s.ended) return closed_failure();
      if (s.list.empty() && !s.told) {
        return s.last_point;
      }
      detached.emplace(detach_locked());
      s.list = new_list();
    }
    refused = submit(turn, *detached, hearer);
  }
  account(*detached);
  sync::Lock lock(s.mutex);
  if (refused) return refused;
  return s.last_point;
}

void Recorder::account(const Detached& detached) {
  const Ref<hal::Ticket>& ticket = detached.ticket;
  if (ticket->state() == hal::TicketState::abandoned) {
    core_->abandoned(*ticket);
  } else {
    core_->submitted();
  }
}

void Recorder::submit_quietly() { (void)submit_open_list(Hearer::next_flush); }

bool Recorder::submit_if_it_keeps_deferred() {
  Ref<hal::Ticket> ticket;
  {
    sync::Lock lock(state_->mutex);
    if (state_->ended) return false;
    ticket = state_->list.ticket();
  }
  if (!core_->allocator().keeps_deferred(*ticket)) return false;
  submit_quietly();
  return true;
}

Result<hal::Point> Recorder::replay(const Ref<hal::Program>& program,
                                    std::span<const hal::Binding> slots,
                                    std::span<const std::byte> parameters, std::string_view label) {
  core_->check_usable();
  State& s = *state_;
  const std::string name = label.empty() && program ? program->name() : std::string(label);
  // Everything that can be refused is, before anything changes.
  hal::make_replay(core_->device().info(), program, slots, parameters, name).abandon({});

  if (!program->list().keeps_users() && !program->fixed_bindings().empty()) {
    throw UsageError(
        fmt::format("{} names memory without being a user of it, so that memory may have gone "
                    "to others; record it with a ProgramRecorder",
                    program->describe()));
  }
  // What a replay may leave as it was counts as read: it must be good before.
  std::vector<Access> accesses;
  const auto add = [&](hal::Allocation* allocation, ByteRange range, hal::Access access,
                       bool overwrites) {
    if (hal::writes(access)) access = overwrites ? hal::Access::write : hal::Access::read_write;
    accesses.push_back(
        {allocation, range, access, nullptr, false, hal::AccessHistory::Extent::hull});
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    const hal::SlotNeed& need = program->slots()[i];
    if (!need.used) continue;
    add(slots[i].allocation, {slots[i].range.offset, need.bytes}, need.access, need.overwrites);
  }
  const auto overwritten = program->overwritten();
  for (const auto& [allocation, range] : overwritten) {
    add(allocation, range, hal::Access::write, true);
  }
  for (const hal::BoundRange& fixed : program->fixed_bindings()) {
    const bool done = std::any_of(overwritten.begin(), overwritten.end(),
                                  [&](const auto& o) { return o.allocation == fixed.allocation; });
    if (!done) add(fixed.allocation, fixed.range, fixed.access, false);
  }
  std::erase_if(accesses, [](const Access& a) { return a.range.empty(); });

  std::optional<Core::Precedence> precedence;
  for (int round = 0;; ++round) {
    let_others_pass(round, precedence);
    std::vector<Detached> done;
    Failure refused;
    hal::AccessHistory::Obstacles obstacles;
    {
      const hal::Queue::Turn turn = core_->waits().take_turn(*queue_);
      // With the turn held nobody else submits: first what was recorded, until nothing is; then the
      // replay, in lane order.
      while (!refused) {
        sync::Lock lock(s.mutex);
        if (s.ended) {
          refused = closed_failure();
          break;
        }
        if (!s.list.empty() || s.told) {
          done.push_back(detach_locked());
          s.list = new_list();
          lock.unlock();
          refused = submit(turn, done.back(), Hearer::caller);
          continue;
        }
        hal::CommandList list =
            hal::make_replay(core_->device().info(), program, slots, parameters, name, lane_);
        hal::ListWaits waits;
        obstacles = tell_histories(accesses, list.ticket(), waits);
        if (!obstacles.none()) {
          list.abandon({});
          break;
        }
        Detached replayed(std::move(list), std::move(waits), std::move(s.explicit_waits));
        s.explicit_waits.clear();
        // Nobody knows the open list yet; one with a later id takes its place.
        s.list.abandon({});
        s.list = new_list();
        lock.unlock();
        refused = submit(turn, replayed, Hearer::caller);
        done.push_back(std::move(replayed));
        break;
      }
    }
    // The other stream may share this queue, and its submit needs the turn: so, without it.
    for (const Detached& d : done) account(d);
    if (refused) return refused;
    if (!obstacles.none()) {
      overcome(obstacles, accesses);
      continue;
    }
    sync::Lock lock(s.mutex);
    return s.last_point;
  }
}

Ref<hal::Ticket> Recorder::submit_copy(hal::Queue::Turn turn, const hal::Binding& from,
                                       const hal::Binding& to, std::string_view label) {
  State& s = *state_;
  std::optional<hal::Queue::Turn> held(std::move(turn));
  std::optional<Detached> detached;
  {
    sync::Lock lock(s.mutex);
    if (s.ended) closed_failure().raise();
    const size_t held_before = s.list.holds().size();
    s.list.copy(from, to, label);
    s.commands.fetch_add(1, std::memory_order_relaxed);
    s.holds.fetch_add(s.list.holds().size() - held_before, std::memory_order_relaxed);
    s.told = true;
    for (const hal::Binding* end : {&from, &to}) {
      sync::Lock history_lock(core_->history_locks().of(*end->allocation));
      // Earlier lives and readers of the bytes are no concern of a copy whose source is written.
      hal::ListWaits unneeded;
      end->allocation->history().add_access(end->range, end->access, s.list.ticket(), unneeded);
      end->allocation->bump_history_version();
    }
    detached.emplace(detach_locked());
    s.list = new_list();
  }
  const Failure refused = submit(*held, *detached, Hearer::caller);
  held.reset();
  account(*detached);
  refused.raise_if_any();
  return detached->ticket;
}

Ref<hal::Ticket> Recorder::submit_alone(std::span<const PendingCommand> commands,
                                        const hal::Wait& gate) {
  core_->check_usable();
  State& s = *state_;
  size_t letters = 0;
  std::vector<Access> accesses;
  for (size_t c = 0; c < commands.size(); ++c) {
    check(commands[c]);
    letters += commands[c].label.size();
    for (const hal::Binding& b : commands[c].bindings) {
      const bool fresh = hal::reads(b.access) && is_written(commands.first(c), b);
      accesses.push_back({b.allocation, b.range, b.access, nullptr, fresh});
    }
  }
  std::optional<Core::Precedence> precedence;
  for (int round = 0;; ++round) {
    let_others_pass(round, precedence);
    std::vector<Detached> done;
    Failure refused;
    hal::AccessHistory::Obstacles obstacles;
    Ref<hal::Ticket> ticket;
    {
      const hal::Queue::Turn turn = core_->waits().take_turn(*queue_);
      while (!refused && !ticket) {
        sync::Lock lock(s.mutex);
        if (s.ended) {
          refused = closed_failure();
          break;
        }
        if (s.list.empty() && !s.told) {
          s.list.reserve(2 * commands.size(), accesses.size(), letters);
          s.told = true;
          obstacles = tell_histories(accesses, s.list.ticket(), s.waits);
          if (!obstacles.none()) {
            s.told = false;
            break;
          }
          s.waits.waits.push_back(gate);
          append_in_order_locked(commands);
          ticket = s.list.ticket();
        }
        done.push_back(detach_locked());
        s.list = new_list();
        lock.unlock();
        // What was recorded before is told to those who depend on it; this call goes on.
        Failure answer = submit(turn, done.back(), ticket ? Hearer::caller : Hearer::next_flush);
        if (ticket) refused = std::move(answer);
      }
    }
    for (const Detached& d : done) account(d);
    refused.raise_if_any();
    if (ticket) return ticket;
    overcome(obstacles, accesses);
  }
}

void Recorder::append_in_order_locked(std::span<const PendingCommand> commands) {
  State& s = *state_;
  s.mutex.assert_held();
  const size_t held_before = s.list.holds().size();
  for (const PendingCommand& command : commands) {
    if (!s.list.empty()) {
      s.list.barrier();
      s.barriers.fetch_add(1, std::memory_order_relaxed);
    }
    if (command.kind == hal::CommandKind::native) {
      s.list.native(command.native, command.bindings, command.label);
    } else {
      assert(command.kind == hal::CommandKind::copy);
      s.list.copy(command.bindings[0], command.bindings[1], command.label);
    }
  }
  s.commands.fetch_add(commands.size(), std::memory_order_relaxed);
  s.holds.fetch_add(s.list.holds().size() - held_before, std::memory_order_relaxed);
}

bool Recorder::is_idle() const {
  sync::Lock lock(state_->mutex);
  return state_->list.empty() && !state_->told && state_->explicit_waits.empty() &&
         !state_->last_point.pending();
}

bool Recorder::ended() const {
  sync::Lock lock(state_->mutex);
  return state_->ended;
}

Recorder::Counters Recorder::counters() const noexcept {
  return {state_->commands.load(std::memory_order_relaxed),
          state_->barriers.load(std::memory_order_relaxed),
          state_->holds.load(std::memory_order_relaxed)};
}

void Recorder::describe_open(Snapshot& snapshot) const {
  sync::Lock lock(state_->mutex);
  if (state_->ended || state_->list.empty()) return;
  Snapshot::List open{state_->list.describe(),
                      fmt::format("open on stream '{}'", name_),
                      state_->list.holds().size(),
                      {}};
  for (const hal::Resource* held : state_->list.holds()) open.held += held->held_bytes();
  snapshot.lists.push_back(std::move(open));
}

void Recorder::abandon(const Failure& why) {
  State& s = *state_;
  std::optional<Detached> dropped;
  {
    sync::Lock lock(s.mutex);
    if (s.ended) return;
    s.ended = true;
    dropped.emplace(detach_locked());
  }
  dropped->list.abandon(why);
  core_->abandoned(*dropped->ticket);
}

}  // namespace holdfast::runtime
