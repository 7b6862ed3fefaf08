#include "holdfast/hal/vulkan/vulkan_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/leave_alive.h"
#include "holdfast/hal/close_once.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/hal/vulkan/vulkan_program.h"
#include "holdfast/hal/vulkan/vulkan_queue.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"
#include "holdfast/hal/vulkan/vulkan_watcher.h"

namespace holdfast::hal {
namespace {

// After new work is refused: what the driver has is usually done within this.
constexpr sync::Duration kVulkanStopGrace = std::chrono::milliseconds(200);

}  // namespace

struct VulkanDevice::State {
  std::vector<Ref<VulkanQueue>> queues;
  std::shared_ptr<VulkanWatcher> watcher;
  uint32_t fork_generation = sync::fork_generation();
  CloseOnce close;
};

Result<Ref<VulkanDevice>> VulkanDevice::open(const VulkanOptions& options) {
  Result<std::shared_ptr<VulkanCore>> opened = VulkanCore::open(options);
  if (!opened) return opened.failure();
  const std::shared_ptr<VulkanCore>& core = opened.value();
  DeviceInfo info;
  info.id = DeviceId::next();
  info.name = core->name;
  info.description = core->description;
  info.queues = options.queues > 0 ? options.queues : static_cast<uint32_t>(core->queues.size());
  info.copy_queues = options.copy_queues.value_or(static_cast<uint32_t>(core->copy_queues.size()));
  const uint32_t* const groups = core->limits.maxComputeWorkGroupCount;
  info.max_group_threads = core->limits.maxComputeWorkGroupInvocations;
  info.module_form = ModuleForm::spirv;
  info.thread_style = ThreadStyle::many_weak;
  info.max_groups = {std::min(groups[0], 0x7fffffffU), std::min(groups[1], 0xffffU),
                     std::min(groups[2], 0xffffU)};
  info.max_buffer = core->max_buffer;
  info.memory = core->memory_limit;
  info.max_buffers = core->max_buffers;
  info.max_imports = core->max_imports;
  info.device_memory_host_visible = core->device_memory_host_visible;

  Ref<VulkanDevice> device(new VulkanDevice(std::move(info), options, core));
  State& state = *device->state_;
  if (!options.immediate) state.watcher = std::make_shared<VulkanWatcher>(core);
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<Queue>> queues;
  std::vector<VulkanQueue*> watched;
  const uint32_t computing = device->info().queues;
  for (uint32_t i = 0; i < computing + device->info().copy_queues; ++i) {
    const bool computes = i < computing;
    const auto& natives = computes || core->copy_queues.empty() ? core->queues : core->copy_queues;
    std::string name = computes ? fmt::format("{} queue {}", core->name, i)
                                : fmt::format("{} copy queue {}", core->name, i - computing);
    Result<VulkanProgress*> progress = core->make_progress(name);
    if (!progress) return progress.failure();
    auto timeline =
        make_ref<VulkanTimeline>(device->id(), std::move(name), core, *progress.value());
    state.queues.push_back(make_ref<VulkanQueue>(device->id(), i, std::move(timeline), core,
                                                 *natives[i % natives.size()], computes,
                                                 state.watcher, counter));
    queues.emplace_back(state.queues.back());
    watched.push_back(state.queues.back().get());
  }
  if (state.watcher) state.watcher->set_queues(std::move(watched));
  device->set_queues(std::move(queues));
  return device;
}

VulkanDevice::VulkanDevice(DeviceInfo info, const VulkanOptions& options,
                           std::shared_ptr<VulkanCore> core)
    : Device(std::move(info)),
      close_bound_(options.close_bound),
      core_(std::move(core)),
      state_(std::make_shared<State>()) {}

VulkanDevice::~VulkanDevice() {
  if (state_->fork_generation != sync::fork_generation()) {
    if (state_->watcher) state_->watcher->forget_thread();
    leave_alive(state_);
    leave_alive(core_);
    return;
  }
  close(sync::Deadline::after(close_bound_));
}

Result<Ref<Buffer>> VulkanDevice::create_buffer(const BufferDesc& desc) {
  const VulkanCore::Use use(*core_);
  if (Failure gone = lost()) return gone;
  if (!use) return closed();
  if (!desc.size) {
    return Failure(ErrorCode::usage, fmt::format("buffer '{}' would have no bytes", desc.name));
  }
  return VulkanBuffer::create(id(), desc, core_);
}

Result<Ref<Buffer>> VulkanDevice::import_buffer(ExternalMemory memory) {
  Failure refused;
  {
    const VulkanCore::Use use(*core_);
    refused = lost();
    if (!refused && !use) refused = closed();
    if (!refused && (memory.data == nullptr || !memory.size)) {
      refused = Failure(ErrorCode::usage,
                        fmt::format("external memory '{}' has no bytes to import", memory.name));
    }
    if (!refused) {
      Result<Ref<Buffer>> imported = VulkanBuffer::import(id(), memory, core_);
      if (imported) return imported;
      refused = imported.failure();
    }
  }
  run_deleter(memory.deleter, memory.name);
  return refused;
}

Result<Ref<Pipeline>> VulkanDevice::create_pipeline(PipelineDesc desc) {
  const VulkanCore::Use use(*core_);
  if (Failure gone = lost()) return gone;
  if (!use) return closed();
  return VulkanPipeline::create(id(), std::move(desc), core_);
}

Result<Ref<Program>> VulkanDevice::create_program(CommandList& list) {
  if (Failure gone = lost()) return gone;
  if (Failure refused = check_sealable(list, id())) return refused;
  return Ref<Program>(make_ref<VulkanProgram>(std::move(list), core_));
}

Result<UniqueFd> VulkanDevice::export_point(const Point& point) {
  // A device that wraps this one has timelines of its own.
  const bool ours = point.timeline && point.timeline->device() == id() &&
                    dynamic_cast<const VulkanTimeline*>(point.timeline.get()) != nullptr;
  if (!ours || !state_->watcher) return Device::export_point(point);
  return state_->watcher->watch(point);
}

Failure VulkanDevice::closed() const {
  return Failure(ErrorCode::closed, fmt::format("device '{}' is closed", info().name));
}

Failure VulkanDevice::lost() const { return core_->stop_cause(); }

VulkanHandles VulkanDevice::handles() const noexcept {
  const VulkanCore::Use use(*core_);
  if (!use) return {};
  return {core_->instance->handle(), core_->physical, core_->device,
          reinterpret_cast<void*>(vkGetInstanceProcAddr)};
}

void VulkanDevice::lose(Failure cause) {
  if (!cause) throw UsageError("a device cannot be lost without a cause");
  core_->stop(std::move(cause));
  if (state_->watcher) state_->watcher->wake();
}

CloseReport VulkanDevice::close(sync::Deadline deadline) {
  // What a list lets go of may be the last Ref to this device.
  const std::shared_ptr<State> state = state_;
  const std::shared_ptr<VulkanCore> core = core_;
  if (auto report = state->close.begin(fmt::format("device '{}'", info().name))) return *report;
  const auto& queues = state->queues;
  for (const Ref<VulkanQueue>& queue : queues) queue->refuse_new_work();
  // A native callback cannot wait for the list that it belongs to.
  const bool inside = std::any_of(queues.begin(), queues.end(), [](const Ref<VulkanQueue>& queue) {
    return queue->is_translating_here();
  });
  if (!inside) {
    for (const Ref<VulkanQueue>& queue : queues) queue->wait_idle(deadline);
  }
  core->stop(Failure(ErrorCode::closed,
                     fmt::format("device '{}' was closed before the list could run", info().name)));
  const sync::Deadline grace = sync::Deadline::after(inside ? sync::Duration() : kVulkanStopGrace);
  for (unsigned attempt = 0; !core->try_end() && !grace.passed(); ++attempt) {
    sync::relax(attempt);
  }
  const bool ended = core->try_end();
  if (state->watcher) state->watcher->finish(ended);
  CloseReport report;
  for (const Ref<VulkanQueue>& queue : queues) {
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

std::vector<DeviceListing> list_vulkan_devices() {
  Result<std::shared_ptr<const VulkanInstance>> instance = VulkanInstance::get(false);
  if (!instance) return {{"vulkan", fmt::format("none: {}", instance.failure().message())}};
  std::vector<DeviceListing> devices;
  size_t index = 0;
  for (const VulkanCandidate& candidate : instance.value()->candidates()) {
    devices.push_back(
        {fmt::format("vulkan:{}", index++),
         candidate.skipped.empty()
             ? candidate.description
             : fmt::format("{}; cannot be used: {}", candidate.description, candidate.skipped)});
  }
  return devices;
}

}  // namespace holdfast::hal
