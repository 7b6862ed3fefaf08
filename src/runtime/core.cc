#include "holdfast/runtime/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/log.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/task_local.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/runtime/recorder.h"

namespace holdfast::runtime {

Core::Core(Ref<hal::Device> device, Options options)
    : device_(std::move(device)),
      options_(options),
      fork_generation_(sync::fork_generation()),
      allocator_(make_ref<Allocator>(device_, options_)) {}

Core::~Core() = default;

void Core::refuse_use() const {
  if (forked()) {
    throw UsageError(
        fmt::format("the context of device '{}' was made before a fork and cannot be used "
                    "in the child; make a new one",
                    device_->info().name));
  }
  throw ClosedError(fmt::format("the context of device '{}' is closed", device_->info().name));
}

// Memory

Ref<hal::Allocation> Core::allocate(Recorder* recorder, Bytes size, std::string&& name,
                                    hal::MemoryKind kind, const std::source_location& site) {
  check_usable();
  Allocator::Request request{size, kind, std::move(name), {}, site};
  if (recorder != nullptr) request.lane = recorder->lane();
  Failure refusal;
  const auto attempt = [&](Allocator::Effort effort) -> Ref<hal::Allocation> {
    Allocator::Given given = allocator_->allocate(request, effort);
    if (given.refusal) refusal = given.refusal;
    // Marks are for devices that wrap others.
    if (given.allocation && given.ended && recorder != nullptr && given.allocation->probe()) {
      recorder->mark_lives(*given.allocation, given.ended);
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
  const Allocator::Shortage shortage = allocator_->describe_shortage(request, refusal);
  throw OutOfMemoryError(fmt::format("{}\n{}{}{}drop or read back arrays sooner", shortage.what,
                                     to_string(who_holds_what(), 5), shortage.remedy,
                                     shortage.remedy.empty() ? "" : ", or "));
}

void Core::trim(Bytes keep) { const Allocator::Garbage garbage = allocator_->trim(keep); }

Ref<hal::Allocation> Core::import(hal::ExternalMemory memory) {
  try {
    check_usable();
    if (!allocator_->has_room_for_an_import()) retire();
    while (!allocator_->has_room_for_an_import() && make_progress(WaitReason::out_of_memory)) {
    }
  } catch (...) {
    hal::run_deleter(memory.deleter, memory.name);
    throw;
  }
  return allocator_->import(std::move(memory)).or_raise();
}

// Streams

hal::LaneId Core::new_lane() {
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::identity_by_recycled_address)) {
    auto vacated = vacated_lanes_.lock();
    if (!vacated->empty()) {
      const hal::LaneId lane = vacated->back();
      vacated->pop_back();
      return lane;
    }
  }
#endif
  return hal::LaneId::next();
}

void Core::add_recorder(const Ref<Recorder>& recorder) {
  auto streams = streams_.lock();
  if (streams->closed) throw ClosedError("the context is closed");
  streams->by_lane.emplace(recorder->lane().value, recorder);
}

void Core::remove_recorder(const Recorder& recorder) {
  Ref<Recorder> dropped;
  auto streams = streams_.lock();
  const auto found = streams->by_lane.find(recorder.lane().value);
  if (found == streams->by_lane.end()) return;
  dropped = std::move(found->second);
  streams->by_lane.erase(found);
  const Recorder::Counters counters = recorder.counters();
  streams->commands += counters.commands;
  streams->barriers += counters.barriers;
  streams->holds += counters.holds;
}

std::vector<Ref<Recorder>> Core::recorders() const {
  std::vector<Ref<Recorder>> all;
  const auto streams = streams_.lock();
  for (const auto& [lane, recorder] : streams->by_lane) all.push_back(recorder);
  // Oldest first, so that two runs of one program treat them alike.
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a->lane() < b->lane(); });
  return all;
}

void Core::submit_open_list(const hal::Ticket& ticket) {
  while (ticket.state() == hal::TicketState::open) {
    Ref<Recorder> recorder;
    {
      const auto streams = streams_.lock();
      const auto found = streams->by_lane.find(ticket.lane().value);
      if (found != streams->by_lane.end()) recorder = found->second;
    }
    // Taking the turn also waits for whoever is submitting this list now.
    if (recorder) recorder->submit_quietly();
  }
}

Ref<hal::Ticket> Core::submit_transfer(const hal::Binding& from, const hal::Binding& to) {
  const auto queues = device_->queues();
  const hal::DeviceInfo& info = device_->info();
  // Where there are queues for copies, one of those: it disturbs no kernel, and no kernel it. Then
  // the one with least on it.
  struct Candidate {
    bool runs_kernels;
    uint32_t in_flight;
    size_t index;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> order;
  for (size_t i = 0; i < queues.size(); ++i) {
    order.push_back({i < info.queues, queues[i]->in_flight(), i});
  }
  std::sort(order.begin(), order.end());
  const auto submit = [&](size_t index, hal::Queue::Turn turn) {
    return transfer_recorder(index)->submit_copy(std::move(turn), from, to, "readback");
  };
  // With the turn held nobody else can put a list before the copy. A turn that another task has is
  // waited for only where no other queue will do: what that task does may depend on the caller.
  for (const Candidate& c : order) {
    std::optional<hal::Queue::Turn> turn = queues[c.index]->try_take_turn();
    if (turn && !is_held_up(*queues[c.index])) return submit(c.index, std::move(*turn));
  }
  for (const Candidate& c : order) {
    hal::Queue::Turn turn = waits_.take_turn(*queues[c.index]);
    if (!is_held_up(*queues[c.index])) return submit(c.index, std::move(turn));
  }
  const size_t first = order.front().index;
  return submit(first, waits_.take_turn(*queues[first]));
}

Ref<Recorder> Core::transfer_recorder(size_t queue) {
  {
    const auto streams = streams_.lock();
    if (queue < streams->transfers.size() && streams->transfers[queue]) {
      return streams->transfers[queue];
    }
  }
  auto made = make_ref<Recorder>(shared_from_this(), device_->queues()[queue], "transfers", false);
  auto streams = streams_.lock();
  if (streams->closed) throw ClosedError("the context is closed");
  streams->transfers.resize(device_->queues().size());
  Ref<Recorder>& place = streams->transfers[queue];
  if (place) return place;
  place = made;
  streams->by_lane.emplace(made->lane().value, made);
  return made;
}

// Reports

RuntimeStats Core::stats() const {
  RuntimeStats stats;
  for (unsigned i = 0; i < kWaitReasons; ++i) {
    stats.waits[i] = waits_.stats(static_cast<WaitReason>(i));
  }
  stats.memory = allocator_->stats();
  // Read in this order, no list is retired that was not submitted.
  stats.retired = retired_.load(std::memory_order_acquire);
  stats.submissions = submissions_.load(std::memory_order_relaxed);
  stats.submissions_in_flight = in_flight();
  stats.failures = failures_.load(std::memory_order_relaxed);
  const auto streams = streams_.lock();
  stats.commands = streams->commands;
  stats.barriers = streams->barriers;
  stats.holds = streams->holds;
  for (const auto& [lane, recorder] : streams->by_lane) {
    const Recorder::Counters counters = recorder->counters();
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
  for (const Ref<Recorder>& recorder : recorders()) recorder->describe_open(snapshot);
  return snapshot;
}

// The end

Core::HostCopy::HostCopy(Core& core, Of of) : core_(core) {
  // Counted before it looks: either the closing sees the copy or the copy sees the closing.
  core_.host_copies_.fetch_add(1);
  if (of == Of::transfer ? !core_.memory_is_going_.load() : !core_.closed()) return;
  core_.host_copies_.fetch_sub(1);
  core_.check_usable();
}

hal::CloseReport Core::close() {
  if (forked()) return {};
  // The closing waits for the reaper, too.
  const bool may_wait = reaper_task_ != sync::this_task();
  if (auto report = close_.begin("the context", may_wait)) return *report;
  const sync::Deadline deadline = sync::Deadline::after(options_.shutdown_bound);
  stop_reaper(deadline);
  streams_.lock()->closed = true;
  for (const Ref<Recorder>& recorder : recorders()) {
    recorder->abandon(Failure(
        ErrorCode::closed,
        fmt::format("the context was closed before stream '{}' submitted it", recorder->name())));
    remove_recorder(*recorder);
  }
  {
    std::vector<Ref<Recorder>> transfers;
    streams_.lock()->transfers.swap(transfers);
  }
  try {
    while (wait_for_reader(WaitReason::shutdown, {deadline, {}})) {
    }
    for (const Ref<hal::Queue>& queue : device_->queues()) {
      hal::Point last;
      queue->visit_in_flight([&](const hal::Submission& s) { last = s.point; });
      waits_.wait(last, WaitReason::shutdown, {deadline, {}});
    }
    wait_for_outside(deadline);
  } catch (const Error& error) {
    logging::note(logging::Topic::shutdown, "{}", error.what());
  }
  retire();
  memory_is_going_.store(true);
  for (unsigned attempt = 0; host_copies_.load() != 0; ++attempt) sync::relax(attempt);
  hal::CloseReport report = device_->close(deadline);
  retire();
  { const Allocator::Garbage garbage = allocator_->close(); }
  spare_lists_.lock()->clear();
  readers_.lock()->clear();
  if (!report.clean()) {
    logging::warn(
        logging::Topic::shutdown,
        "device '{}' was closed with {} lists that could not be stopped; their memory is left "
        "alive: {}",
        device_->info().name, report.lists_left, report.details);
  }
  close_.finish(report);
  return report;
}

void close_at_exit(const std::shared_ptr<Core>& core) {
  // What a simulation runs ends with it, also where its tasks are stuck for good.
  if (sync::Scheduler::current() != nullptr) return;
  using Open = sync::ProcessGuarded<std::vector<std::weak_ptr<Core>>>;
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
