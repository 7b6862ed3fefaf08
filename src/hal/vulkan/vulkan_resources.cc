#include "holdfast/hal/vulkan/vulkan_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "holdfast/hal/deleter.h"
#include "holdfast/hal/gpu/memory_share.h"
#include "holdfast/hal/vulkan/spirv_check.h"

namespace holdfast::hal {
Result<Ref<Buffer>> VulkanBuffer::create(DeviceId device, const BufferDesc& desc,
                                         const std::shared_ptr<VulkanCore>& core) {
  const std::string what = fmt::format("device '{}' cannot give {} for buffer '{}'", core->name,
                                       to_string(desc.size), desc.name);
  MemoryShare share(core->used_bytes, desc.size);
  const Bytes most = std::min(core->max_buffer, core->heap_sizes[static_cast<size_t>(desc.kind)]);
  if (Failure refused = share.refusal(most, core->memory_limit, what)) return refused;
  const bool map = core->device_memory_host_visible || desc.kind != MemoryKind::device;
  Result<VulkanCore::Memory> memory = core->allocate(desc.size, desc.kind, map, what);
  if (!memory) return memory.failure();
  core->name_object(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<uint64_t>(memory.value().buffer),
                    desc.name);
  Ref<Buffer> buffer(
      new VulkanBuffer(device, desc.size, desc.kind, desc.name, false, core, memory.value()));
  share.keep();
  return buffer;
}

Result<Ref<Buffer>> VulkanBuffer::import(DeviceId device, ExternalMemory& memory,
                                         const std::shared_ptr<VulkanCore>& core) {
  const std::string what =
      fmt::format("external memory '{}' ({})", memory.name, to_string(memory.size));
  if (memory.on_device) {
    return Failure(
        ErrorCode::unsupported,
        fmt::format("{}: Vulkan has no way to use memory by its address; copy it", what));
  }
  Result<VulkanCore::Memory> native = core->import(memory.data, memory.size, what);
  if (!native) return native.failure();
  Ref<VulkanBuffer> buffer(new VulkanBuffer(device, memory.size, MemoryKind::device, memory.name,
                                            true, core, native.value()));
  buffer->deleter_ = std::move(memory.deleter);
  return Ref<Buffer>(std::move(buffer));
}

VulkanBuffer::~VulkanBuffer() {
  give_back();
  if (fork_generation_ == sync::fork_generation()) run_deleter(deleter_, name());
}

void VulkanBuffer::destroy_native() noexcept {
  core()->free(memory_);
  if (!is_imported()) core()->used_bytes.fetch_sub(size().value);
}

Result<Ref<Pipeline>> VulkanPipeline::create(DeviceId device, PipelineDesc desc,
                                             const std::shared_ptr<VulkanCore>& core) {
  const auto* const module = std::get_if<SpirvModule>(&desc.module);
  if (module == nullptr) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': device '{}' runs SPIR-V, and this module is none",
                               desc.name, core->name));
  }
  if (Failure refused = check_limits(desc)) return refused;
  if (Failure refused = check_spirv(desc, core->features)) return refused;
  if (module->threads_at &&
      *module->threads_at + Bytes{3 * sizeof(uint32_t)} > desc.parameter_bytes) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': the threads of its groups stand at byte {} of its "
                               "parameters, which are {} bytes",
                               desc.name, module->threads_at->value, desc.parameter_bytes.value));
  }

  if (module->report && (module->report->size < Bytes{sizeof(uint32_t)} ||
                         module->report->size > kMaxParameterBytes || !module->report->read)) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}' reports {} bytes: a report has 4 to {} bytes, and a "
                               "function that reads them",
                               desc.name, module->report->size.value, kMaxParameterBytes.value));
  }

  const bool by_address = module->bindings == SpirvBindings::addresses;
  BindingLimits limits;
  if (!by_address) {
    limits.alignment = Bytes{core->limits.minStorageBufferOffsetAlignment};
    limits.length = Bytes{core->limits.maxStorageBufferRange};
  }
  Ref<VulkanPipeline> pipeline(new VulkanPipeline(device, desc, limits, core));
  pipeline->by_address_ = by_address;
  const Bytes addresses = by_address ? module->address_bytes(desc.bindings) : Bytes{};
  pipeline->block_bytes_ = static_cast<uint32_t>((desc.parameter_bytes + addresses).value);
  pipeline->takes_lengths_ = by_address && module->binding_lengths;
  if (by_address) pipeline->report_ = module->report;
  if (!by_address) pipeline->descriptors_ = desc.bindings + (pipeline->spills() ? 1 : 0);
  const uint32_t most = std::min(core->limits.maxPerStageDescriptorStorageBuffers,
                                 core->limits.maxDescriptorSetStorageBuffers);
  if (pipeline->descriptors_ > most) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}' binds {} buffers, its parameters included, and device "
                               "'{}' has {}; a kernel that takes addresses may bind more",
                               desc.name, pipeline->descriptors_, core->name, most));
  }
  Result<VulkanLayout> layout = core->layout(pipeline->descriptors_);
  if (!layout) return layout.failure();
  pipeline->layout_ = layout.value();

  VkShaderModuleCreateInfo shader_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  shader_info.codeSize = module->words.size() * sizeof(uint32_t);
  shader_info.pCode = module->words.data();
  if (Failure failure = core->check(
          core->vk.vkCreateShaderModule(core->device, &shader_info, nullptr, &pipeline->shader_),
          fmt::format("kernel '{}' cannot be made", desc.name))) {
    return failure;
  }
  if (module->threads_at) {
    pipeline->module_ = std::get<SpirvModule>(std::move(desc.module));
    pipeline->module_->words.clear();  // the driver has them
    return Ref<Pipeline>(std::move(pipeline));
  }
  Result<VkPipeline> made = pipeline->make(*module, {}, pipeline->shader_);
  core->vk.vkDestroyShaderModule(core->device, std::exchange(pipeline->shader_, VK_NULL_HANDLE),
                                 nullptr);
  if (!made) return made.failure();
  pipeline->handle_ = made.value();
  return Ref<Pipeline>(std::move(pipeline));
}

Result<VkPipeline> VulkanPipeline::make(const SpirvModule& module,
                                        std::span<const SpirvModule::Constant> more,
                                        VkShaderModule shader) const {
  const VulkanCore& c = *core();
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<uint64_t> values;
  for (const auto constants : {std::span<const SpirvModule::Constant>(module.constants), more}) {
    for (const SpirvModule::Constant& constant : constants) {
      entries.push_back(
          {constant.id, static_cast<uint32_t>(values.size() * sizeof(uint64_t)), constant.bytes});
      values.push_back(constant.bits);
    }
  }
  const VkSpecializationInfo constants{static_cast<uint32_t>(entries.size()), entries.data(),
                                       values.size() * sizeof(uint64_t), values.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = module.entry_point.c_str();
  info.stage.pSpecializationInfo = entries.empty() ? nullptr : &constants;
  info.layout = layout_.pipeline;
  VkPipeline made = VK_NULL_HANDLE;
  const VkResult result =
      c.vk.vkCreateComputePipelines(c.device, c.pipeline_cache, 1, &info, nullptr, &made);
  if (Failure failure = c.check(result, fmt::format("kernel '{}' cannot be made", name()))) {
    return failure;
  }
  c.name_object(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(made), name());
  return made;
}

Result<VkPipeline> VulkanPipeline::handle_for(std::span<const std::byte> parameters) const {
  if (!module_) return handle_;
  Groups threads;
  std::memcpy(&threads, parameters.data() + module_->threads_at->value, sizeof threads);
  {
    const sync::LeafLock lock(mutex_);
    for (const Sized& sized : sized_) {
      if (sized.threads == threads) return sized.handle;
    }
  }
  const VulkanFeatures& has = core()->features;
  if (threads.count() == 0 || threads.count() > has.max_group_threads ||
      threads.x > has.max_group_size[0] || threads.y > has.max_group_size[1] ||
      threads.z > has.max_group_size[2]) {
    return Failure(
        ErrorCode::execution,
        fmt::format("kernel '{}' was dispatched in groups of {} x {} x {} threads, and device '{}' "
                    "has at most {}, and {} x {} x {} along each axis",
                    name(), threads.x, threads.y, threads.z, core()->name, has.max_group_threads,
                    has.max_group_size[0], has.max_group_size[1], has.max_group_size[2]));
  }
  const std::array<SpirvModule::Constant, 3> sizes{
      {{.id = 0, .bits = threads.x}, {.id = 1, .bits = threads.y}, {.id = 2, .bits = threads.z}}};
  Result<VkPipeline> made = make(*module_, sizes, shader_);
  if (!made) return made;
  VkPipeline surplus = VK_NULL_HANDLE;
  VkPipeline result = made.value();
  {
    const sync::LeafLock lock(mutex_);
    const auto same = [&](const Sized& sized) { return sized.threads == threads; };
    const auto known = std::ranges::find_if(sized_, same);
    if (known == sized_.end()) {
      sized_.push_back({threads, result});
    } else {
      surplus = std::exchange(result, known->handle);  // another made it meanwhile
    }
  }
  if (surplus != VK_NULL_HANDLE) core()->vk.vkDestroyPipeline(core()->device, surplus, nullptr);
  return result;
}

VulkanPipeline::~VulkanPipeline() { give_back(); }

void VulkanPipeline::destroy_native() noexcept {
  const VulkanCore& c = *core();
  const sync::LeafLock lock(mutex_);
  for (const Sized& sized : sized_) c.vk.vkDestroyPipeline(c.device, sized.handle, nullptr);
  c.vk.vkDestroyPipeline(c.device, handle_, nullptr);
  c.vk.vkDestroyShaderModule(c.device, shader_, nullptr);
}

}  // namespace holdfast::hal
