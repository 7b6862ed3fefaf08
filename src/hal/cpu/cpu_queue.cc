#include "holdfast/hal/cpu/cpu_queue.h"

#include <fmt/format.h>

#include "holdfast/base/leave_alive.h"

namespace holdfast::hal {
namespace {

// A list that waits for something outside this device looks this often whether the device was
// stopped.
constexpr sync::Duration kStopCheck = std::chrono::milliseconds(10);

// A worker looks this often for the next list before it sleeps: waking it costs the submitter
// several microseconds (bench row submit).
constexpr unsigned kIdleSpins = 2000;

}  // namespace

Failure CpuShared::stop_cause() const {
  if (fork_generation != sync::fork_generation()) {
    return Failure(ErrorCode::usage,
                   "the CPU device was opened before a fork and belongs to the parent process; "
                   "open one in this process");
  }
  return stopped.load(std::memory_order_acquire) ? *why.lock() : Failure();
}

void CpuShared::stop(Failure cause) {
  auto held = why.lock();
  if (!*held) *held = std::move(cause);
  stopped.store(true, std::memory_order_release);
}

// The part of a queue that its thread works on; shared with that thread, which may have to be left
// behind.
struct CpuQueue::Worker {
  DeviceId device;
  std::shared_ptr<CpuShared> shared;
  Ref<HostTimeline> timeline;
  // Of what is being run: the queue that its user knows. Compared, never dereferenced.
  std::atomic<const Queue*> running{nullptr};

  sync::Mutex mutex;  // guards pending, refusing, ending and asleep
  sync::Condition changed;
  std::deque<const Work*> pending HOLDFAST_GUARDED_BY(mutex);
  bool refusing HOLDFAST_GUARDED_BY(mutex) = false;
  bool ending HOLDFAST_GUARDED_BY(mutex) = false;
  bool asleep HOLDFAST_GUARDED_BY(mutex) = false;
  std::atomic<uint64_t> given{0};  // the value of the newest list accepted
  std::atomic<bool> ended{false};

  void run() {
    while (const Work* work = next()) execute(*work);
    end_timeline();
    sync::Lock lock(mutex);
    ended = true;
    changed.notify_all();
  }

  void end_timeline() {
    timeline->fail_all_pending(Failure(
        ErrorCode::closed, fmt::format("{} is closed and will never get there", timeline->name())));
  }

  void execute(const Work& work) {
    const TimelineValue value = work.point.value;
    ListDamage damage(work);
    Failure stop = wait_for_all(work, damage);
    if (!stop) stop = shared->stop_cause();
    if (!stop && !damage.forbids_all()) {
      running.store(work.queue);
      run_commands(work, damage, shared->pool, shared->stopped);
      running.store(nullptr);
      stop = shared->stop_cause();
    }
    ListFailure failure = damage.finish();
    // Nobody knows how far a list got that was stopped: all that it writes is bad.
    if (stop) failure = {failure.cause ? failure.cause : stop, nullptr};
    if (failure) {
      timeline->fail(value, std::move(failure.cause), std::move(failure.damage));
    } else {
      timeline->signal(value);
    }
  }

  const Work* next() {
    sync::spin_for(kIdleSpins, [this] {
      return given.load(std::memory_order_acquire) > timeline->resolved().value;
    });
    sync::Lock lock(mutex);
    asleep = true;
    changed.wait(lock, [this] {
      mutex.assert_held();
      return !pending.empty() || ending;
    });
    asleep = false;
    if (pending.empty()) return nullptr;
    const Work* work = pending.front();
    pending.pop_front();
    return work;
  }

  // Waits for every wait, whatever the others gave: the list's Point vouches for all of them. A
  // failure: the device was stopped meanwhile.
  Failure wait_for_all(const Work& work, ListDamage& damage) const {
    Failure stopped;
    for (size_t i = 0; i < work.waits.size(); ++i) {
      const Wait& wait = work.waits[i];
      if (!wait.point.timeline) continue;
      const Timeline& awaited = *wait.point.timeline;
      const bool ours = awaited.device() == device;
      PointState state = PointState::pending;
      while (state == PointState::pending) {
        state = awaited.wait(wait.point.value, sync::Deadline::after(kStopCheck));
        // What belongs to this device is resolved by its own queue; nothing else need ever be.
        if (state == PointState::pending && !ours) {
          if (Failure stop = shared->stop_cause()) {
            if (!stopped) stopped = stop;
            break;
          }
        }
      }
      if (state == PointState::failed) {
        damage.wait_failed(i,
                           {awaited.failure(wait.point.value), awaited.damage(wait.point.value)});
      }
    }
    return stopped;
  }
};

CpuQueue::CpuQueue(DeviceId device, uint32_t index, Ref<HostTimeline> timeline,
                   std::shared_ptr<CpuShared> shared,
                   std::shared_ptr<std::atomic<uint64_t>> counter,
                   std::function<Failure(const Queue&)> fail_submit, bool immediate)
    : Queue(device, index, timeline->name(), timeline, std::move(counter)),
      worker_(std::make_shared<Worker>()),
      fail_submit_(std::move(fail_submit)),
      immediate_(immediate) {
  worker_->device = device;
  worker_->shared = std::move(shared);
  worker_->timeline = std::move(timeline);
  if (immediate_) return;
  thread_ = sync::Thread(fmt::format("hf-queue{}", index), [worker = worker_] { worker->run(); });
}

CpuQueue::~CpuQueue() {
  // Its device has closed it; a queue that was never closed is one whose device failed to open.
  if (thread_.joinable()) join(sync::Deadline::never());
}

Failure CpuQueue::execute(const Work& work) {
  if (Failure stop = worker_->shared->stop_cause()) return stop;
  if (fail_submit_) {
    if (Failure injected = fail_submit_(*this)) return injected;
  }
  bool wake = false;
  {
    sync::Lock lock(worker_->mutex);
    if (worker_->refusing) {
      return Failure(ErrorCode::closed, fmt::format("{} is closed", name()));
    }
    if (!immediate_) worker_->pending.push_back(&work);
    wake = worker_->asleep;
  }
  worker_->given.store(work.point.value.value, std::memory_order_release);
  if (immediate_) worker_->execute(work);
  if (wake) worker_->changed.notify_all();
  return {};
}

void CpuQueue::refuse_new_work() {
  sync::Lock lock(worker_->mutex);
  worker_->refusing = true;
}

bool CpuQueue::wait_idle(sync::Deadline deadline) {
  // Its own thread cannot wait for itself: the list it is running ends when it returns.
  if (executing() != nullptr && executing() == worker_->running.load()) return false;
  const TimelineValue last{worker_->given.load(std::memory_order_acquire)};
  return worker_->timeline->wait(last, deadline) != PointState::pending;
}

void CpuQueue::join(sync::Deadline deadline) {
  if (immediate_) worker_->end_timeline();
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    sync::Lock lock(worker_->mutex);
    worker_->refusing = true;
    worker_->ending = true;
    worker_->changed.notify_all();
    if (!thread_.is_current()) {
      const auto has_ended = [&] { return worker_->ended.load(); };
      ended = worker_->changed.wait_until(lock, deadline, has_ended);
      // Only users' code can keep it: without that it lacks nothing but a core.
      if (worker_->running.load() == nullptr) ended = true;
    }
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void CpuQueue::forget_thread() {
  thread_.detach();
  leave_alive(worker_);
}

}  // namespace holdfast::hal
