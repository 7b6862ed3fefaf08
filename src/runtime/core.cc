#include "holdfast/runtime/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/log.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/task_local.h"
#include "holdfast/runtime/encoder.h"

namespace holdfast::runtime {
namespace {

// Storage of finished lists that is kept for new ones.
constexpr size_t kSpareLists = 64;

}  // namespace

Core::Core(Ref<hal::Device> device, Options options)
    : device_(std::move(device)),
      options_(options),
      fork_generation_(sync::fork_generation()),
      allocator_(make_ref<Allocator>(device_, options_)) {}

Core::~Core() = default;

bool Core::forked() const noexcept { return fork_generation_ != sync::fork_generation(); }

void Core::check_usable() const {
  if (forked()) {
    throw UsageError(
        fmt::format("the context of device '{}' was made before a fork and cannot be used "
                    "in the child; make a new one",
                    device_->info().name));
  }
  if (closed()) {
    throw ClosedError(fmt::format("the context of device '{}' is closed", device_->info().name));
  }
}

// Retirement

size_t Core::retire() {
  hal::Retired finished;
  Allocator::Garbage garbage;
  {
    sync::Lock lock(retire_mutex_);
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Retired batch = queue->retire();
      for (auto& submission : batch) {
        hal::Ticket& ticket = *submission->list.ticket();
        if (ticket.failure()) failures_.fetch_add(1, std::memory_order_relaxed);
        auto freed = allocator_->ticket_over(ticket);
        std::move(freed.begin(), freed.end(), std::back_inserter(garbage));
        finished.push_back(std::move(submission));
      }
    }
  }
  const size_t count = finished.size();
  retired_.fetch_add(count, std::memory_order_relaxed);
  drop(std::move(finished));
  return count;
}

void Core::drop(hal::Retired retired) {
  for (auto& submission : retired) {
    const auto outside = [](const hal::Wait& w) {
      return w.point.timeline && !w.point.timeline->device();
    };
    if (std::any_of(submission->waits.begin(), submission->waits.end(), outside)) {
      count_outside_wait(-1);
    }
    hal::ListStorage storage = submission->list.take_storage();
    auto spare = spare_lists_.lock();
    if (spare->size() < kSpareLists) spare->push_back(std::move(storage));
  }
}

hal::ListStorage Core::take_list_storage() {
  auto spare = spare_lists_.lock();
  if (spare->empty()) return {};
  hal::ListStorage storage = std::move(spare->back());
  spare->pop_back();
  return storage;
}

void Core::abandoned(hal::Ticket& ticket) {
  if (Failure failure = ticket.failure()) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    log::note(log::Topic::device, "list {} will not run: {}", ticket.list().value,
              failure.message());
  }
  const Allocator::Garbage garbage = allocator_->ticket_over(ticket);
}

void Core::count_outside_wait(int change) noexcept {
  outside_waits_.fetch_add(static_cast<uint64_t>(static_cast<int64_t>(change)));
}

void Core::submitted() {
  submissions_.fetch_add(1, std::memory_order_relaxed);
  if (!drain_as_ablated()) retire();
  if (reaper_sleeps_.exchange(false)) {
    sync::Lock lock(reaper_mutex_);
    reaper_changed_.notify_all();
  }
}

// Budget

uint64_t Core::in_flight() const noexcept {
  uint64_t all = 0;
  for (const Ref<hal::Queue>& queue : device_->queues()) all += queue->in_flight();
  return all;
}

bool Core::over_budget() const noexcept {
  return allocator_->deferred_bytes() > options_.deferred_limit ||
         allocator_->deferred_objects() > options_.deferred_objects ||
         in_flight() > options_.max_in_flight;
}

#ifdef HOLDFAST_ABLATIONS
// The two policies that workload 4 is compared with. They reclaim at their drains and nowhere else.
bool Core::drain_as_ablated() {
  const bool fifo = ablated(Ablation::fifo_of_three_drains);
  const bool every = ablated(Ablation::drain_every_32_flushes);
  const bool drain = (fifo && allocator_->deferred_objects() > 3) ||
                     (every && submissions_.load(std::memory_order_relaxed) % 32 == 0);
  if (drain) {
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Point last;
      queue->visit_in_flight([&](const hal::Submission& s) { last = s.point; });
      waits_.wait(last, WaitReason::budget);
    }
    retire();
  }
  return fifo || every;
}
#endif

void Core::keep_within_budget() {
  if (!over_budget()) return;
  retire();
  while (over_budget() && make_progress(WaitReason::budget)) {
  }
}

bool Core::make_progress(WaitReason reason) {
  bool submitted_any = false;
  for (const Ref<Encoder>& encoder : encoders()) {
    submitted_any = encoder->submit_if_it_keeps_deferred() || submitted_any;
  }
  return wait_for_oldest(reason) || submitted_any;
}

bool Core::wait_for_oldest(WaitReason reason) {
  const std::optional<hal::Point> oldest = oldest_ungated();
  if (!oldest) {
    // Another task may be between taking finished lists out and freeing their memory.
    return retire() > 0;
  }
  waits_.wait(*oldest, reason);
  retire();
  return true;
}

std::optional<hal::Point> Core::oldest_ungated() const {
  std::optional<hal::Queue::Oldest> found;
  const auto consider = [&](hal::Queue::Oldest candidate) {
    if (!found || candidate.sequence < found->sequence) found = std::move(candidate);
  };
  if (outside_waits_.load() == 0) {
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      if (auto oldest = queue->oldest()) consider(std::move(*oldest));
    }
    return found ? std::optional(found->point) : std::nullopt;
  }

  // Some lists wait for Points outside the device, which the caller of this very function may have
  // yet to signal. Such a list, what waits for it, and what comes after it on its queue are gated
  // and not waited for.
  struct InFlight {
    hal::Point point;
    uint64_t sequence;
    std::vector<hal::Wait> waits;
  };
  std::vector<std::vector<InFlight>> queues;
  for (const Ref<hal::Queue>& queue : device_->queues()) {
    auto& lists = queues.emplace_back();
    queue->visit_in_flight([&](const hal::Submission& s) {
      lists.push_back({s.point, s.sequence, s.waits});
    });
  }
  std::unordered_map<uint64_t, uint64_t> gated_from;  // timeline -> first gated value
  const auto is_gated = [&](const InFlight& list) {
    return std::any_of(list.waits.begin(), list.waits.end(), [&](const hal::Wait& wait) {
      if (!wait.point.pending()) return false;
      if (!wait.point.timeline->device()) return true;
      const auto gate = gated_from.find(wait.point.timeline->id().value);
      return gate != gated_from.end() && wait.point.value.value >= gate->second;
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& lists : queues) {
      for (const InFlight& list : lists) {
        const uint64_t timeline = list.point.timeline->id().value;
        const auto gate = gated_from.find(timeline);
        if (gate != gated_from.end() && list.point.value.value >= gate->second) break;
        if (!is_gated(list)) continue;
        gated_from[timeline] = list.point.value.value;
        changed = true;
        break;
      }
    }
  }
  for (const auto& lists : queues) {
    if (lists.empty()) continue;
    const auto gate = gated_from.find(lists.front().point.timeline->id().value);
    if (gate != gated_from.end() && lists.front().point.value.value >= gate->second) continue;
    consider({lists.front().point, lists.front().sequence});
  }
  return found ? std::optional(found->point) : std::nullopt;
}

// Memory

Ref<hal::Allocation> Core::allocate(Encoder* encoder, Bytes size, std::string name,
                                    hal::MemoryKind kind) {
  check_usable();
  Allocator::Request request{size, kind, std::move(name), {}};
  if (encoder != nullptr) request.lane = encoder->lane();
  Failure refusal;
  const auto attempt = [&](Allocator::Effort effort) -> Ref<hal::Allocation> {
    Allocator::Given given = allocator_->allocate(request, effort);
    if (given.refusal) refusal = given.refusal;
    if (given.allocation && given.ended && encoder != nullptr) {
      encoder->mark_lives(*given.allocation, given.ended);
    }
    return std::move(given.allocation);
  };
  if (auto allocation = attempt(Allocator::Effort::pool)) return allocation;
  retire();
  if (auto allocation = attempt(Allocator::Effort::pool)) return allocation;
  trim();
  if (auto allocation = attempt(Allocator::Effort::pool)) return allocation;
  if (outside_waits_.load() == 0) {
    if (auto allocation = attempt(Allocator::Effort::any_submitted)) return allocation;
  }
  for (bool progress = true; progress;) {
    progress = make_progress(WaitReason::out_of_memory);
    if (auto allocation = attempt(Allocator::Effort::pool)) return allocation;
    trim();
    if (auto allocation = attempt(Allocator::Effort::pool)) return allocation;
  }
  if (Failure lost = device_->lost()) lost.raise();
  std::string message = allocator_->describe_shortage(request);
  if (refusal) message += fmt::format("; the device said: {}", refusal.message());
  message += fmt::format("\n{}raise HOLDFAST_MEMORY_LIMIT, or drop or read back arrays sooner",
                         to_string(who_holds_what(), 5));
  throw OutOfMemoryError(message);
}

void Core::trim() { const Allocator::Garbage garbage = allocator_->trim(); }

Ref<hal::Allocation> Core::import(hal::ExternalMemory memory) {
  try {
    check_usable();
    if (!allocator_->has_room_for_a_buffer()) retire();
    if (!allocator_->has_room_for_a_buffer()) trim();
    while (!allocator_->has_room_for_a_buffer() && make_progress(WaitReason::out_of_memory)) trim();
  } catch (...) {
    if (memory.deleter) memory.deleter();
    throw;
  }
  return allocator_->import(std::move(memory)).or_raise();
}

// Host access

bool Core::try_begin_host_access(hal::Allocation& allocation,
                                 hal::AccessHistory::HostAccess& access) {
  access.serial = access_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
  sync::Lock lock(history_mutex_);
  hal::AccessHistory& history = allocation.history();
  hal::AccessHistory::Tickets tickets;
  history.collect(access.range, access.access, tickets);
  if (!tickets.empty() || history.host_conflict(access.range, access.access) != nullptr) {
    return false;
  }
  history.begin_host_access(access);
  allocation.bump_history_version();
  return true;
}

void Core::begin_host_access(hal::Allocation& allocation, hal::AccessHistory::HostAccess& access,
                             WaitReason reason, const WaitLimit& limit) {
  access.serial = access_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
  hal::AccessHistory& history = allocation.history();
  bool registered = false;
  const auto conflict_locked = [&] {
    return registered ? nullptr : history.host_conflict(access.range, access.access);
  };
  try {
    for (;;) {
      if (!registered) let_others_pass();
      hal::AccessHistory::Tickets tickets;
      bool readback = false;
      {
        sync::Lock lock(history_mutex_);
        if (const hal::AccessHistory::HostAccess* conflict = conflict_locked()) {
          if (conflict->is_map) {
            throw UsageError(fmt::format(
                "{} cannot be accessed by '{}': the map '{}' has bytes {}..{} of it for "
                "{}; end that map first",
                allocation.describe(), access.name, conflict->name, conflict->range.offset.value,
                conflict->range.end().value, hal::to_string(conflict->access)));
          }
          readback = true;
        } else {
          history.collect(access.range, access.access, tickets);
          // Others are refused by a map, but wait for a readback: so that one is there for its copy
          // only.
          if (!registered && (access.is_map || tickets.empty())) {
            history.begin_host_access(access);
            allocation.bump_history_version();
            registered = true;
          }
        }
      }
      if (readback) {
        wait_for_readbacks(allocation, access.range, access.access, limit);
        continue;
      }
      if (tickets.empty()) break;
      for (const Ref<hal::Ticket>& ticket : tickets) submit_open_list(*ticket);
      for (const Ref<hal::Ticket>& ticket : tickets) {
        if (ticket->state() != hal::TicketState::abandoned) {
          waits_.wait(ticket->point(), reason, limit);
        }
      }
      retire();  // only then are they over, and the next look finds nothing left
    }
    if (hal::reads(access.access)) {
      Failure poison;
      {
        sync::Lock lock(history_mutex_);
        poison = history.poison(access.range);
      }
      poison.raise_if_any();
    }
  } catch (...) {
    if (registered) end_host_access(allocation, access, false);
    throw;
  }
  retire();
}

void Core::end_host_access(hal::Allocation& allocation,
                           const hal::AccessHistory::HostAccess& access, bool happened) noexcept {
  if (forked()) return;
  {
    sync::Lock lock(history_mutex_);
    allocation.history().end_host_access(access);
    if (happened && hal::writes(access.access)) allocation.history().host_wrote(access.range);
    allocation.bump_history_version();
  }
  if (access_waiters_.load() == 0) return;
  sync::Lock lock(access_mutex_);
  ++accesses_ended_;
  access_changed_.notify_all();
}

void Core::wait_for_readbacks(hal::Allocation& allocation, ByteRange range, hal::Access access,
                              const WaitLimit& limit) {
  const auto conflict = [&] {
    sync::Lock lock(history_mutex_);
    const hal::AccessHistory::HostAccess* host = allocation.history().host_conflict(range, access);
    return host != nullptr && !host->is_map;
  };
  access_waiters_.fetch_add(1);
  try {
    waits_.wait_until(
        [&](sync::Deadline deadline) {
          sync::Lock lock(access_mutex_);
          const uint64_t before = accesses_ended_;
          lock.unlock();
          if (!conflict()) return true;
          lock.lock();
          // One that has ended is enough for the caller to look again, and to ask for precedence in
          // time.
          return access_changed_.wait_until(lock, deadline,
                                            [&] { return accesses_ended_ != before; });
        },
        WaitReason::host_access, limit, fmt::format("a readback of {}", allocation.describe()));
  } catch (...) {
    access_waiters_.fetch_sub(1);
    throw;
  }
  access_waiters_.fetch_sub(1);
}

Core::Precedence::Precedence(Core& core) : core_(core) {
  while (core_.precedence_taken_.exchange(true)) core_.wait_for_precedence();
}

Core::Precedence::~Precedence() {
  core_.precedence_taken_.store(false);
  sync::Lock lock(core_.access_mutex_);
  ++core_.accesses_ended_;
  core_.access_changed_.notify_all();
}

void Core::wait_for_precedence() {
  waits_.wait_until(
      [&](sync::Deadline deadline) {
        sync::Lock lock(access_mutex_);
        return access_changed_.wait_until(lock, deadline,
                                          [&] { return !precedence_taken_.load(); });
      },
      WaitReason::host_access, {}, "a recorder that others kept overtaking");
}

// Streams

void Core::add_encoder(const Ref<Encoder>& encoder) {
  auto streams = streams_.lock();
  if (streams->closed) throw ClosedError("the context is closed");
  streams->by_lane.emplace(encoder->lane().value, encoder);
}

void Core::remove_encoder(const Encoder& encoder) {
  Ref<Encoder> dropped;
  auto streams = streams_.lock();
  const auto found = streams->by_lane.find(encoder.lane().value);
  if (found == streams->by_lane.end()) return;
  dropped = std::move(found->second);
  streams->by_lane.erase(found);
  const Encoder::Counters counters = encoder.counters();
  streams->commands += counters.commands;
  streams->barriers += counters.barriers;
  streams->holds += counters.holds;
}

std::vector<Ref<Encoder>> Core::encoders() const {
  std::vector<Ref<Encoder>> all;
  const auto streams = streams_.lock();
  for (const auto& [lane, encoder] : streams->by_lane) all.push_back(encoder);
  return all;
}

void Core::submit_open_list(const hal::Ticket& ticket) {
  while (ticket.state() == hal::TicketState::open) {
    Ref<Encoder> encoder;
    {
      const auto streams = streams_.lock();
      const auto found = streams->by_lane.find(ticket.lane().value);
      if (found != streams->by_lane.end()) encoder = found->second;
    }
    // Taking the turn also waits for whoever is submitting this list now.
    if (encoder) encoder->submit_quietly();
  }
}

Ref<Encoder> Core::transfer_encoder() {
  // A queue with nothing on it, else one that nothing outside the device holds up.
  const auto queues = device_->queues();
  size_t chosen = 0;
  for (size_t i = 1; i < queues.size(); ++i) {
    if (queues[i]->in_flight() < queues[chosen]->in_flight()) chosen = i;
  }
  if (queues[chosen]->in_flight() > 0) {
    if (const std::optional<hal::Point> oldest = oldest_ungated()) {
      for (size_t i = 0; i < queues.size(); ++i) {
        if (queues[i]->timeline() == oldest->timeline) chosen = i;
      }
    }
  }
  {
    const auto streams = streams_.lock();
    if (chosen < streams->transfers.size() && streams->transfers[chosen]) {
      return streams->transfers[chosen];
    }
  }
  auto made = make_ref<Encoder>(shared_from_this(), queues[chosen], "transfers", false);
  auto streams = streams_.lock();
  if (streams->closed) throw ClosedError("the context is closed");
  streams->transfers.resize(queues.size());
  Ref<Encoder>& place = streams->transfers[chosen];
  if (place) return place;
  place = made;
  streams->by_lane.emplace(made->lane().value, made);
  return made;
}

// Reports

Stats Core::stats() const {
  Stats stats;
  for (unsigned i = 0; i < kWaitReasons; ++i) {
    stats.waits[i] = waits_.stats(static_cast<WaitReason>(i));
  }
  stats.memory = allocator_->stats();
  stats.submissions = submissions_.load(std::memory_order_relaxed);
  stats.submissions_in_flight = in_flight();
  stats.retired = retired_.load(std::memory_order_relaxed);
  stats.failures = failures_.load(std::memory_order_relaxed);
  const auto streams = streams_.lock();
  stats.commands = streams->commands;
  stats.barriers = streams->barriers;
  stats.holds = streams->holds;
  for (const auto& [lane, encoder] : streams->by_lane) {
    const Encoder::Counters counters = encoder->counters();
    stats.commands += counters.commands;
    stats.barriers += counters.barriers;
    stats.holds += counters.holds;
  }
  return stats;
}

Snapshot Core::who_holds_what() const {
  Snapshot snapshot;
  allocator_->snapshot(snapshot);
  for (const Ref<hal::Queue>& queue : device_->queues()) {
    queue->visit_in_flight([&](const hal::Submission& s) {
      Snapshot::List list{s.list.describe(),
                          fmt::format("in flight as {}", hal::to_string(s.point)),
                          s.list.holds().size(),
                          {}};
      for (const hal::Resource* held : s.list.holds()) list.held += held->held_bytes();
      snapshot.lists.push_back(std::move(list));
    });
  }
  for (const Ref<Encoder>& encoder : encoders()) encoder->describe_open(snapshot);
  return snapshot;
}

// The reaper and the end

void Core::start_reaper() {
  if (!options_.reaper) return;
  sync::Lock lock(reaper_mutex_);
  reaper_ended_ = false;
  reaper_ = sync::Thread("hf-reaper", [self = shared_from_this()] { self->reap(); });
}

// Wakes only while lists are in flight, and retires only where nobody else did since its last look.
void Core::reap() {
  reaper_task_ = sync::this_task();
  constexpr sync::Duration idle = std::chrono::milliseconds(20);
  uint64_t retired_before = retired_.load(std::memory_order_relaxed);
  for (;;) {
    {
      sync::Lock lock(reaper_mutex_);
      if (in_flight() == 0) {
        reaper_sleeps_.store(true);
        reaper_changed_.wait(
            lock, [&] { return reaper_stops_ || in_flight() > 0 || !reaper_sleeps_.load(); });
        reaper_sleeps_.store(false);
      }
      reaper_changed_.wait_until(lock, sync::Deadline::after(idle), [&] { return reaper_stops_; });
      if (reaper_stops_) break;
    }
    const uint64_t now = retired_.load(std::memory_order_relaxed);
    if (now == retired_before) retire();
    retired_before = retired_.load(std::memory_order_relaxed);
  }
  sync::Lock lock(reaper_mutex_);
  reaper_ended_ = true;
  reaper_changed_.notify_all();
}

void Core::stop_reaper(sync::Deadline deadline) {
  sync::Lock lock(reaper_mutex_);
  reaper_stops_ = true;
  reaper_changed_.notify_all();
  if (!reaper_.joinable()) return;
  // It may be running a deleter of the user's, which may need a lock that the caller has.
  if (!reaper_.is_current()) {
    reaper_changed_.wait_until(lock, deadline, [&] { return reaper_ended_; });
  }
  const bool ended = reaper_ended_;
  lock.unlock();
  if (ended) {
    reaper_.join();
  } else {
    reaper_.detach();
  }
}

hal::CloseReport Core::close() {
  if (forked()) return {};
  if (closed_.exchange(true)) {
    // Another task is at it. It cannot be waited for by code that it may have to wait for itself.
    const bool may_wait = hal::Queue::executing() == nullptr && reaper_task_ != sync::this_task();
    sync::Lock lock(close_mutex_);
    if (may_wait) close_done_.wait(lock, [&] { return report_.has_value(); });
    return report_.value_or(hal::CloseReport{1, "another task is closing the context"});
  }
  const sync::Deadline deadline = sync::Deadline::after(options_.shutdown_bound);
  stop_reaper(deadline);
  streams_.lock()->closed = true;
  for (const Ref<Encoder>& encoder : encoders()) {
    encoder->abandon(Failure(
        ErrorCode::closed,
        fmt::format("the context was closed before stream '{}' submitted it", encoder->name())));
    remove_encoder(*encoder);
  }
  {
    std::vector<Ref<Encoder>> transfers;
    streams_.lock()->transfers.swap(transfers);
  }
  try {
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Point last;
      queue->visit_in_flight([&](const hal::Submission& s) { last = s.point; });
      waits_.wait(last, WaitReason::shutdown, {deadline, {}});
    }
  } catch (const Error& error) {
    log::note(log::Topic::shutdown, "{}", error.what());
  }
  retire();
  hal::CloseReport report = device_->close(deadline);
  retire();
  { const Allocator::Garbage garbage = allocator_->close(); }
  spare_lists_.lock()->clear();
  if (!report.clean()) {
    log::warn(
        log::Topic::shutdown,
        "device '{}' was closed with {} lists that could not be stopped; their memory is left "
        "alive: {}",
        device_->info().name, report.lists_left, report.details);
  }
  sync::Lock lock(close_mutex_);
  report_ = report;
  close_done_.notify_all();
  return report;
}

void close_at_exit(const std::shared_ptr<Core>& core) {
  using Open = sync::Guarded<std::vector<std::weak_ptr<Core>>>;
  static Open* const open = [] {
    auto* forever = new Open;  // NOLINT: used by the exit action itself
    sync::at_exit([forever] {
      std::vector<std::weak_ptr<Core>> left;
      std::swap(*forever->lock(), left);
      for (const auto& weak : left) {
        if (const auto still = weak.lock()) still->close();
      }
    });
    return forever;
  }();
  auto cores = open->lock();
  std::erase_if(*cores, [](const std::weak_ptr<Core>& weak) { return weak.expired(); });
  cores->push_back(core);
}

}  // namespace holdfast::runtime
