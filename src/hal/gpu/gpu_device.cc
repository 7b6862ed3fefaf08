#include "holdfast/hal/gpu/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/leave_alive.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/hal/gpu/gpu_watcher.h"

namespace holdfast::hal {
namespace {

// After new work is refused: what the driver has is usually done within this.
constexpr sync::Duration kStopGrace = std::chrono::milliseconds(200);

}  // namespace

struct GpuDevice::State {
  std::vector<Ref<GpuQueue>> queues;
  std::shared_ptr<GpuWatcher> watcher;
  uint32_t fork_generation = sync::fork_generation();
  CloseOnce close;
};

GpuDevice::GpuDevice(DeviceInfo info, std::shared_ptr<GpuCore> core, bool immediate,
                     sync::Duration close_bound)
    : Device(std::move(info)),
      close_bound_(close_bound),
      gpu_(std::move(core)),
      state_(std::make_shared<State>()) {
  if (!immediate) state_->watcher = std::make_shared<GpuWatcher>(gpu_);
}

void GpuDevice::end() {
  if (state_->fork_generation != sync::fork_generation()) {
    if (state_->watcher) state_->watcher->forget_thread();
    leave_alive(state_);
    leave_alive(gpu_);
    return;
  }
  close(sync::Deadline::after(close_bound_));
}

const std::shared_ptr<GpuWatcher>& GpuDevice::watcher() const noexcept { return state_->watcher; }

void GpuDevice::set_gpu_queues(std::vector<Ref<GpuQueue>> queues) {
  std::vector<GpuQueue*> watched;
  watched.reserve(queues.size());
  for (const Ref<GpuQueue>& queue : queues) watched.push_back(queue.get());
  if (state_->watcher) state_->watcher->set_queues(std::move(watched));
  set_queues({queues.begin(), queues.end()});
  state_->queues = std::move(queues);
}

Failure GpuDevice::closed() const {
  return Failure(ErrorCode::closed, fmt::format("device '{}' is closed", info().name));
}

Failure GpuDevice::check_external(const ExternalMemory& memory) {
  if (memory.data != nullptr && memory.size) return {};
  return Failure(ErrorCode::usage,
                 fmt::format("external memory '{}' has no bytes to import", memory.name));
}

void GpuDevice::drop(ExternalMemory& memory) { run_deleter(memory.deleter, memory.name); }

Result<UniqueFd> GpuDevice::export_point(const Point& point) {
  // A device that wraps this one has timelines of its own.
  const auto* const timeline = dynamic_cast<const GpuTimeline*>(point.timeline.get());
  const bool ours = timeline != nullptr && timeline->is_of(*gpu_);
  if (!ours || !state_->watcher) return Device::export_point(point);
  return state_->watcher->watch(point);
}

void GpuDevice::lose(Failure cause) {
  if (!cause) throw UsageError("a device cannot be lost without a cause");
  gpu_->stop(std::move(cause));
  if (state_->watcher) state_->watcher->wake();
}

CloseReport GpuDevice::close(sync::Deadline deadline) {
  // What a list lets go of may be the last Ref to this device.
  const std::shared_ptr<State> state = state_;
  const std::shared_ptr<GpuCore> core = gpu_;
  if (auto report = state->close.begin(fmt::format("device '{}'", info().name))) return *report;
  const auto& queues = state->queues;
  for (const Ref<GpuQueue>& queue : queues) queue->refuse_new_work();
  // A native callback cannot wait for the list that it belongs to.
  const bool inside = std::any_of(queues.begin(), queues.end(), [](const Ref<GpuQueue>& queue) {
    return queue->is_translating_here();
  });
  if (!inside) {
    for (const Ref<GpuQueue>& queue : queues) queue->wait_idle(deadline);
  }
  core->stop(Failure(ErrorCode::closed,
                     fmt::format("device '{}' was closed before the list could run", info().name)));
  const sync::Deadline grace = sync::Deadline::after(inside ? sync::Duration() : kStopGrace);
  for (unsigned attempt = 0; !core->try_end() && !grace.passed(); ++attempt) {
    sync::relax(attempt);
  }
  const bool ended = core->try_end();
  if (state->watcher) state->watcher->finish(ended);
  CloseReport report;
  for (const Ref<GpuQueue>& queue : queues) {
    const Retired finished = queue->retire();
    if (!ended) report.add_left(*queue);
  }
  if (ended) {
    core->close();
  } else {
    if (report.clean()) report = {1, "a list is being translated"};
    core->abandon();
    leave_alive(core);
    leave_alive(state);
  }
  state->close.finish(report);
  return report;
}

}  // namespace holdfast::hal
