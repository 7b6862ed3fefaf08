#include "holdfast/hal/queue.h"

#include <fmt/format.h>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/leave_alive.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::hal {
namespace {

constinit const sync::TaskLocalPointer<const Queue> kExecuting;

}  // namespace

const Queue* Queue::executing() noexcept { return kExecuting.get(); }

Queue::Executing::Executing(const Queue* queue) noexcept : before_(kExecuting.get()) {
  kExecuting.set(queue);
}
Queue::Executing::~Executing() { kExecuting.set(before_); }

Queue::Queue(DeviceId device, uint32_t index, std::string name, Ref<Timeline> timeline,
             std::shared_ptr<std::atomic<uint64_t>> submission_counter)
    : name_(std::move(name)),
      index_(index),
      device_(device),
      timeline_(std::move(timeline)),
      submission_counter_(std::move(submission_counter)) {}

Queue::~Queue() {
  Retired finished = retire();
  for (auto& submission : in_flight_) leave_alive(std::move(submission));
}

Queue::Turn::~Turn() {
  if (!queue_) return;
  {
    sync::Lock lock(queue_->turn_mutex_);
    queue_->turn_taker_ = nullptr;
  }
  queue_->turn_free_.notify_one();
}

std::optional<Queue::Turn> Queue::try_take_turn() {
  if (executing() == this) {
    throw UsageError(
        fmt::format("a native callback that runs on {} cannot submit to {} itself", name_, name_));
  }
  sync::Lock lock(turn_mutex_);
  if (turn_taker_ != nullptr) return std::nullopt;
  turn_taker_ = sync::this_task();
  return Turn(Ref<Queue>(this));
}

std::optional<Queue::Turn> Queue::take_turn(sync::Deadline deadline) {
  if (auto turn = try_take_turn()) return turn;
  sync::Lock lock(turn_mutex_);
  if (turn_taker_ == sync::this_task()) {
    throw UsageError(fmt::format("a task that has the turn of {} asks for it again", name_));
  }
  const auto is_free = [&] {
    turn_mutex_.assert_held();
    return turn_taker_ == nullptr;
  };
  if (!turn_free_.wait_until(lock, deadline, is_free)) return std::nullopt;
  turn_taker_ = sync::this_task();
  return Turn(Ref<Queue>(this));
}

Failure Queue::check(const CommandList& list, const std::vector<Wait>& waits) const {
  if (list.device() != device_) {
    return Failure(ErrorCode::usage, fmt::format("{} was recorded for another device than {}'s",
                                                 list.describe(), name_));
  }
  if (!list.ticket() || list.ticket()->state() != TicketState::open) {
    return Failure(ErrorCode::usage, fmt::format("a list submitted to {} was submitted, moved or "
                                                 "abandoned before",
                                                 name_));
  }
  for (const Wait& wait : waits) {
    if (!wait.point.timeline) continue;
    const DeviceId owner = wait.point.timeline->device();
    if (owner && owner != device_) {
      return Failure(
          ErrorCode::usage,
          fmt::format("{} cannot wait for {}, which belongs to another device; export that "
                      "Point and import it here",
                      list.describe(), to_string(wait.point)));
    }
  }
  for (const Wait& wait : waits) {
    if (wait.point.timeline && !wait.point.timeline->was_issued(wait.point.value)) {
      return Failure(ErrorCode::usage,
                     fmt::format("{} cannot wait for {}: no list with that value was submitted yet",
                                 list.describe(), to_string(wait.point)));
    }
  }
  if (list.needs_replay()) {
    return Failure(ErrorCode::usage,
                   fmt::format("{} binds slots or takes a replay's parameters; seal it into a "
                               "program and submit replays of that",
                               list.describe()));
  }
  return {};
}

Result<Point> Queue::submit(const Turn& turn, CommandList& list, std::vector<Wait> waits,
                            std::vector<AwaitedBytes> awaited) {
  if (turn.queue_.get() != this) {
    return Failure(ErrorCode::usage, fmt::format("{} was given the turn of another queue", name_));
  }
  if (Failure refused = check(list, waits)) return refused;
  const TimelineValue value = last_value_.next();
  const uint64_t sequence = submission_counter_->fetch_add(1, std::memory_order_relaxed);
  Submission* submission = nullptr;
  {
    // Kept before it is handed over: once accepted, nothing can fail any more.
    auto kept = std::make_unique<Submission>(Submission{std::move(list),
                                                        Point{timeline_, value},
                                                        std::move(waits),
                                                        std::move(awaited),
                                                        sequence,
                                                        false,
                                                        {}});
    kept->work = {&kept->list, nullptr, kept->point, kept->waits, this, kept->awaited};
    sync::Lock lock(mutex_);
    in_flight_.push_back(std::move(kept));
    submission = in_flight_.back().get();
  }
  Failure refused = execute(submission->work);
  sync::Lock lock(mutex_);
  if (refused) {
    list = std::move(submission->list);
    in_flight_.pop_back();
    return refused;
  }
  last_value_ = value;
  timeline_->note_issued(value);
  // One step for retire(): whoever knows the Point finds the list in flight until it was seen.
  submission->accepted = true;
  submission->list.ticket()->mark_submitted(submission->point);
  in_flight_count_.fetch_add(1);
  const Point point = submission->point;
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::destroyed_at_submit)) {
    Holds gone = submission->list.take_holds();
    lock.unlock();
  }
#endif
  return point;
}

Result<Point> Queue::submit(CommandList& list, std::vector<Wait> waits) {
  try {
    const auto turn = take_turn();
    return submit(*turn, list, std::move(waits));
  } catch (const UsageError& error) {
    return Failure(ErrorCode::usage, error.what());
  }
}

Result<Point> Queue::submit(CommandList&& list, std::vector<Wait> waits) {
  return submit(list, std::move(waits));
}

Retired Queue::retire() {
  Retired finished;
  if (in_flight() == 0) return finished;
  sync::Lock lock(mutex_);
  while (!in_flight_.empty()) {
    Submission& oldest = *in_flight_.front();
    if (!oldest.accepted) break;
    const PointState state = oldest.point.query();
    if (state == PointState::pending) break;
    if (state == PointState::failed) {
      oldest.list.ticket()->mark_seen(oldest.point.failure(), oldest.point.damage());
    } else {
      oldest.list.ticket()->mark_seen({});
    }
    finished.push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
  in_flight_count_.fetch_sub(static_cast<uint32_t>(finished.size()));
  return finished;
}

std::optional<Queue::Oldest> Queue::oldest() const {
  if (in_flight() == 0) return std::nullopt;
  sync::Lock lock(mutex_);
  if (in_flight_.empty() || !in_flight_.front()->accepted) return std::nullopt;
  return Oldest{in_flight_.front()->point, in_flight_.front()->sequence};
}

void Queue::visit_in_flight(const std::function<void(const Submission&)>& visit) const {
  sync::Lock lock(mutex_);
  for (const auto& submission : in_flight_) {
    if (submission->accepted) visit(*submission);
  }
}

}  // namespace holdfast::hal
