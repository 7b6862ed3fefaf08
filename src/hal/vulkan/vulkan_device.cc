#include "holdfast/hal/vulkan/vulkan_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/hal/vulkan/vulkan_program.h"
#include "holdfast/hal/vulkan/vulkan_queue.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"

namespace holdfast::hal {

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
  const VulkanFeatures& has = core->features;
  for (const auto& [is, word] : {std::pair{has.keeps_nan_16, "nan16"},
                                 {has.keeps_nan_32, "nan32"},
                                 {has.keeps_nan_64, "nan64"},
                                 {has.keeps_small_32, "small32"},
                                 {has.rounds_to_nearest, "nearest"},
                                 {has.simdgroups, "simd32"},
                                 {has.is_lavapipe, "lavapipe"}}) {
    if (is) info.architecture += fmt::format("{}{}", info.architecture.empty() ? "" : " ", word);
  }
  info.max_buffer = core->max_buffer;
  info.memory = core->memory_limit;
  info.max_buffers = core->max_buffers;
  info.max_imports = core->max_imports;
  info.device_memory_host_visible = core->device_memory_host_visible;

  Ref<VulkanDevice> device(new VulkanDevice(std::move(info), options, core));
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<GpuQueue>> queues;
  const uint32_t computing = device->info().queues;
  for (uint32_t i = 0; i < computing + device->info().copy_queues; ++i) {
    const bool computes = i < computing;
    const auto& natives = computes || core->copy_queues.empty() ? core->queues : core->copy_queues;
    std::string name = computes ? fmt::format("{} queue {}", core->name, i)
                                : fmt::format("{} copy queue {}", core->name, i - computing);
    Result<VulkanProgress*> progress = core->make_progress(name);
    if (!progress) return progress.failure();
    auto timeline = make_ref<GpuTimeline>(device->id(), std::move(name), core, *progress.value());
    queues.emplace_back(make_ref<VulkanQueue>(device->id(), i, std::move(timeline), core,
                                              *natives[i % natives.size()], computes,
                                              device->watcher(), counter));
  }
  device->set_gpu_queues(std::move(queues));
  core->profiler.profile().set_collector([core = std::weak_ptr<VulkanCore>(core)] {
    const std::shared_ptr<VulkanCore> alive = core.lock();
    if (!alive) return;
    const VulkanCore::Use use(*alive);
    if (use) alive->profiler.collect(*alive);
  });
  return device;
}

VulkanDevice::VulkanDevice(DeviceInfo info, const VulkanOptions& options,
                           std::shared_ptr<VulkanCore> core)
    : GpuDevice(std::move(info), core, options.immediate, options.close_bound),
      core_(std::move(core)) {}

VulkanDevice::~VulkanDevice() { end(); }

Result<Ref<Buffer>> VulkanDevice::create_buffer(const BufferDesc& desc) {
  return while_open([&]() -> Result<Ref<Buffer>> {
    if (!desc.size) {
      return Failure(ErrorCode::usage, fmt::format("buffer '{}' would have no bytes", desc.name));
    }
    return VulkanBuffer::create(id(), desc, core_);
  });
}

Result<Ref<Buffer>> VulkanDevice::import_buffer(ExternalMemory memory) {
  return import_while_open(memory, [&] { return VulkanBuffer::import(id(), memory, core_); });
}

Result<Ref<Pipeline>> VulkanDevice::create_pipeline(PipelineDesc desc) {
  return while_open([&] { return VulkanPipeline::create(id(), std::move(desc), core_); });
}

Result<Ref<Program>> VulkanDevice::create_program(CommandList& list) {
  if (Failure gone = lost()) return gone;
  if (Failure refused = check_sealable(list, id())) return refused;
  return Ref<Program>(make_ref<VulkanProgram>(std::move(list), core_));
}

KernelProfile* VulkanDevice::profile() const {
  return core_->queues.front()->has_timestamps ? &core_->profiler.profile() : nullptr;
}

VulkanHandles VulkanDevice::handles() const noexcept {
  const VulkanCore::Use use(*core_);
  if (!use) return {};
  return {core_->instance->handle(), core_->physical, core_->device,
          reinterpret_cast<void*>(vkGetInstanceProcAddr)};
}

std::vector<DeviceListing> list_vulkan_devices() {
  Result<std::shared_ptr<const VulkanInstance>> instance = VulkanInstance::get(false);
  if (!instance) {
    const std::string& why = instance.failure().message();
    return {{"vulkan", fmt::format("none: {}", why), why}};
  }
  std::vector<DeviceListing> devices;
  size_t index = 0;
  for (const VulkanCandidate& candidate : instance.value()->candidates()) {
    devices.push_back(
        {fmt::format("vulkan:{}", index++),
         candidate.skipped.empty()
             ? candidate.description
             : fmt::format("{}; cannot be used: {}", candidate.description, candidate.skipped),
         candidate.skipped, candidate.is_gpu});
  }
  return devices;
}

}  // namespace holdfast::hal
