#include "holdfast/hal/host_timeline.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/relay_timeline.h"

namespace holdfast::hal {
namespace {

// Short kernels finish within this many looks, and a sleeping waiter costs tens of microseconds to
// wake.
constexpr unsigned kSpins = 128;

}  // namespace

void make_readable(const UniqueFd& descriptor) noexcept {
  const uint64_t one = 1;
  // An eventfd that starts at zero cannot refuse its first write.
  [[maybe_unused]] const auto written = ::write(descriptor.get(), &one, sizeof one);
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

PointState HostTimeline::query(TimelineValue value) const noexcept {
  if (sync::Scheduler* scheduler = sync::Scheduler::current()) {
    scheduler->switch_point("query a Point", sync::Where::current());
    scheduler->touch(schedule_object(), 0, 1, false);
  }
  if (resolved_.load(std::memory_order_acquire) < value.value) {
    // Once ended, no further value is resolved, so a second look decides.
    if (!ended_.load(std::memory_order_acquire)) return PointState::pending;
    if (resolved_.load(std::memory_order_acquire) < value.value) return PointState::failed;
  }
  return failures_.find(value.value) != nullptr ? PointState::failed : PointState::reached;
}

Failure HostTimeline::failure(TimelineValue value) const {
  const PointState state = query(value);
  if (state != PointState::failed) return {};
  const ListFailure* found = failures_.find(value.value);
  return found != nullptr ? found->cause : end_cause_;
}

std::shared_ptr<const Damage> HostTimeline::damage(TimelineValue value) const {
  if (query(value) != PointState::failed) return nullptr;
  const ListFailure* found = failures_.find(value.value);
  return found != nullptr ? found->damage : nullptr;
}

PointState HostTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  const auto resolved = [&] { return query(value) != PointState::pending; };
  if (sync::spin_for(kSpins, resolved)) return query(value);
  waiters_.fetch_add(1);
  {
    sync::Lock lock(mutex_);
    resolved_changed_.wait_until(lock, deadline, resolved);
  }
  waiters_.fetch_sub(1);
  return query(value);
}

uint64_t HostTimeline::schedule_object() const noexcept {
  // Names are the same in every run of a program; two timelines of one name count as one.
  return std::hash<std::string_view>()(name()) | 1;
}

void HostTimeline::resolve_locked(uint64_t value) {
  if (sync::Scheduler* scheduler = sync::Scheduler::current()) {
    scheduler->touch(schedule_object(), 0, 1, true);
  }
  // Sequentially consistent with waiters_: either the waiter sees the value or we see the waiter.
  resolved_.store(value);
  wake_locked();
  std::erase_if(exported_, [&](const Exported& e) {
    if (e.value.value > value) return false;
    make_readable(e.descriptor);
    return true;
  });
}

void HostTimeline::wake_locked() {
  if (waiters_.load() > 0) resolved_changed_.notify_all();
}

void HostTimeline::signal(TimelineValue value) {
  sync::Lock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed)) return;
  if (value.value < resolved_.load(std::memory_order_relaxed)) {
    throw UsageError(fmt::format("timeline '{}' is at {} and cannot go back to {}", name(),
                                 resolved_.load(), value.value));
  }
  resolve_locked(value.value);
}

void HostTimeline::fail(TimelineValue value, Failure cause, std::shared_ptr<const Damage> damage) {
  if (!cause) throw UsageError(fmt::format("timeline '{}' cannot fail without a cause", name()));
  sync::Lock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed)) return;
  if (value.value <= resolved_.load(std::memory_order_relaxed)) {
    throw UsageError(fmt::format("timeline '{}' is at {}; {} is resolved and cannot fail any more",
                                 name(), resolved_.load(), value.value));
  }
  if (ablated(Ablation::point_before_error)) {
    resolve_locked(value.value);
    sync::switch_point("before the error is stored");
  }
  // The cause first, then the answer.
  failures_.add_locked(value.value, {std::move(cause), std::move(damage)});
  resolve_locked(value.value);
}

void HostTimeline::fail_all_pending(Failure cause) {
  if (!cause) throw UsageError(fmt::format("timeline '{}' cannot fail without a cause", name()));
  sync::Lock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed)) return;
  end_cause_ = std::move(cause);
  ended_.store(true);
  if (sync::Scheduler* scheduler = sync::Scheduler::current()) {
    scheduler->touch(schedule_object(), 0, 1, true);
  }
  wake_locked();
  for (const Exported& e : exported_) make_readable(e.descriptor);
  exported_.clear();
}

Result<UniqueFd> HostTimeline::export_value(TimelineValue value) {
  UniqueFd ours(::eventfd(0, EFD_CLOEXEC));
  UniqueFd theirs(ours ? ::dup(ours.get()) : -1);
  if (!theirs) {
    return Failure(ErrorCode::environment,
                   fmt::format("the Point {} @ {} cannot be exported: {}", name(), value.value,
                               std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
  }
  sync::Lock lock(mutex_);
  if (query(value) != PointState::pending) {
    make_readable(ours);
  } else {
    exported_.push_back({value, std::move(ours)});
  }
  return theirs;
}

Result<UniqueFd> export_host_point(const Point& point) {
  // Nothing to wait for: value zero of any timeline is resolved from the start.
  if (!point.timeline) return make_ref<HostTimeline>(DeviceId{}, "nothing")->export_value({});
  if (auto* timeline = dynamic_cast<HostTimeline*>(point.timeline.get())) {
    return timeline->export_value(point.value);
  }
  if (auto* timeline = dynamic_cast<DescriptorTimeline*>(point.timeline.get())) {
    return timeline->export_value();
  }
  if (auto* relay = dynamic_cast<RelayTimeline*>(point.timeline.get())) {
    return export_host_point(relay->relayed());
  }
  return Failure(
      ErrorCode::unsupported,
      fmt::format("{} cannot be exported: its device does not know how", to_string(point)));
}

DescriptorTimeline::DescriptorTimeline(UniqueFd descriptor, std::string name)
    : Timeline(DeviceId{}, std::move(name)),
      descriptor_(std::move(descriptor)),
      unreachable_(ErrorCode::environment,
                   fmt::format("the imported Point '{}' can never be reached: its descriptor was "
                               "closed or is not readable",
                               this->name())) {}

Result<UniqueFd> DescriptorTimeline::export_value() const {
  UniqueFd copy(::dup(descriptor_.get()));
  if (copy) return copy;
  return Failure(ErrorCode::environment,
                 fmt::format("the imported Point '{}' cannot be exported: {}", name(),
                             std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
}

PointState DescriptorTimeline::look(TimelineValue value, int timeout_ms) const noexcept {
  if (value.value == 0 || reached_.load(std::memory_order_acquire)) return PointState::reached;
  pollfd watched{descriptor_.get(), POLLIN, 0};
  if (::poll(&watched, 1, timeout_ms) <= 0) return PointState::pending;
  if ((watched.revents & POLLIN) == 0) return PointState::failed;
  reached_.store(true, std::memory_order_release);
  return PointState::reached;
}

PointState DescriptorTimeline::query(TimelineValue value) const noexcept { return look(value, 0); }

Failure DescriptorTimeline::failure(TimelineValue value) const {
  return query(value) == PointState::failed ? unreachable_ : Failure();
}

PointState DescriptorTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  for (;;) {
    int timeout_ms = -1;
    if (!deadline.is_never()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.when() - sync::now());
      timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
    }
    const PointState state = look(value, timeout_ms);
    if (state != PointState::pending || deadline.passed()) return state;
  }
}

}  // namespace holdfast::hal
