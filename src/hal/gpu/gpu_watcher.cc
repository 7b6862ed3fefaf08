#include "holdfast/hal/gpu/gpu_watcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "holdfast/base/leave_alive.h"
#include "holdfast/hal/gpu/gpu_queue.h"
#include "holdfast/hal/host_timeline.h"

namespace holdfast::hal {
namespace {

// Counters have no descriptor to poll: while one is watched, it is looked at this often.
constexpr int kLookAgainMs = 1;

// Points outside the device, each with a descriptor for as long as it is waited for.
class HostPoints {
 public:
  void watch(std::vector<Point> wanted) {
    std::erase_if(watched_, [&](const Watched& w) {
      return std::find(wanted.begin(), wanted.end(), w.point) == wanted.end();
    });
    complete_ = true;
    for (Point& point : wanted) {
      const bool known = std::any_of(watched_.begin(), watched_.end(),
                                     [&](const Watched& w) { return w.point == point; });
      if (known) continue;
      Result<UniqueFd> descriptor = export_host_point(point);
      if (descriptor) {
        watched_.push_back({std::move(point), std::move(descriptor).value()});
      } else {
        complete_ = false;
      }
    }
  }
  // Whether each could be given a descriptor.
  bool complete() const noexcept { return complete_; }
  void add_to(std::vector<pollfd>& polled) const {
    for (const Watched& w : watched_) polled.push_back({w.descriptor.get(), POLLIN, 0});
  }

 private:
  struct Watched {
    Point point;
    UniqueFd descriptor;
  };
  std::vector<Watched> watched_;
  bool complete_ = true;
};

}  // namespace

GpuWatcher::GpuWatcher(std::shared_ptr<GpuCore> core)
    : core_(std::move(core)), wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void GpuWatcher::set_queues(std::vector<GpuQueue*> queues) { queues_ = std::move(queues); }

Failure GpuWatcher::begin() {
  if (running_.load()) return {};
  if (!wake_fd_) {
    return Failure(ErrorCode::environment,
                   fmt::format("device '{}' has no descriptor to wake its thread by; raise the "
                               "limit of open files",
                               core_->name));
  }
  sync::Lock lock(mutex_);
  if (running_.load()) return {};
  try {
    thread_ = sync::Thread("hf-gpu", [self = shared_from_this()] { self->run(); });
  } catch (const Error& error) {
    return Failure(error.code(), error.what());
  }
  running_.store(true);
  return {};
}

void GpuWatcher::wake() noexcept {
  if (running_.load()) make_readable(wake_fd_);
}

Result<UniqueFd> GpuWatcher::watch(const Point& point) {
  UniqueFd ours(::eventfd(0, EFD_CLOEXEC));
  UniqueFd theirs(ours ? ::dup(ours.get()) : -1);
  if (!theirs) {
    return Failure(ErrorCode::environment,
                   fmt::format("the Point {} cannot be exported: {}", to_string(point),
                               std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
  }
  if (point.pending()) {
    if (Failure failure = begin()) return failure;
    {
      sync::Lock lock(mutex_);
      exports_.push_back({point, std::move(ours)});
    }
    // The thread may have looked for the last time.
    look_at_exports();
    wake();
  } else {
    make_readable(ours);
  }
  return theirs;
}

bool GpuWatcher::look_at_exports() {
  std::vector<Export> all;
  {
    sync::Lock lock(mutex_);
    all.swap(exports_);
  }
  std::erase_if(all, [](const Export& e) {
    if (e.point.pending()) return false;
    make_readable(e.descriptor);
    return true;
  });
  if (all.empty()) return false;
  sync::Lock lock(mutex_);
  for (Export& left : all) exports_.push_back(std::move(left));
  return true;
}

void GpuWatcher::run() {
  HostPoints host_points;
  std::vector<pollfd> polled;
  for (;;) {
    // What one queue starts may be what another waits for.
    std::vector<Point> waits_for;
    bool started = true;
    while (started) {
      started = false;
      waits_for.clear();
      for (GpuQueue* queue : queues_) started |= queue->start_kept_back(waits_for);
    }
    host_points.watch(std::move(waits_for));
    const bool ended = core_->try_end();
    const bool exports = look_at_exports();
    bool finishing = false;
    {
      sync::Lock lock(mutex_);
      finishing = finishing_;
    }
    if (finishing && ended) return;
    polled.assign(1, {wake_fd_.get(), POLLIN, 0});
    host_points.add_to(polled);
    const bool look_again = exports || finishing || !host_points.complete();
    ::poll(polled.data(), polled.size(), look_again ? kLookAgainMs : -1);
    uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(wake_fd_.get(), &count, sizeof count);
  }
}

void GpuWatcher::finish(bool ended) {
  sync::Thread thread;
  {
    sync::Lock lock(mutex_);
    finishing_ = true;
    thread = std::move(thread_);
  }
  wake();
  if (ended) {
    if (thread.joinable()) thread.join();
  } else {
    thread.detach();
  }
}

void GpuWatcher::forget_thread() {
  thread_.detach();
  leave_alive(shared_from_this());
}

}  // namespace holdfast::hal
