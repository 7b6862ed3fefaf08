#include "holdfast/hal/vulkan/vulkan_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

  const bool by_address = module->bindings == SpirvBindings::addresses;
  BindingLimits limits;
  if (!by_address) {
    limits.alignment = Bytes{core->limits.minStorageBufferOffsetAlignment};
    limits.length = Bytes{core->limits.maxStorageBufferRange};
  }
  Ref<VulkanPipeline> pipeline(new VulkanPipeline(device, desc, limits, core));
  pipeline->by_address_ = by_address;
  pipeline->block_bytes_ =
      static_cast<uint32_t>(desc.parameter_bytes.value) +
      (by_address ? desc.bindings * static_cast<uint32_t>(sizeof(uint64_t)) : 0);
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

  const std::string what = fmt::format("kernel '{}' cannot be made", desc.name);
  VkShaderModuleCreateInfo shader_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  shader_info.codeSize = module->words.size() * sizeof(uint32_t);
  shader_info.pCode = module->words.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  if (Failure failure = core->check(
          core->vk.vkCreateShaderModule(core->device, &shader_info, nullptr, &shader), what)) {
    return failure;
  }
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<uint64_t> values;
  for (const SpirvModule::Constant& constant : module->constants) {
    entries.push_back(
        {constant.id, static_cast<uint32_t>(values.size() * sizeof(uint64_t)), constant.bytes});
    values.push_back(constant.bits);
  }
  const VkSpecializationInfo constants{static_cast<uint32_t>(entries.size()), entries.data(),
                                       values.size() * sizeof(uint64_t), values.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = module->entry_point.c_str();
  info.stage.pSpecializationInfo = entries.empty() ? nullptr : &constants;
  info.layout = pipeline->layout_.pipeline;
  const VkResult result = core->vk.vkCreateComputePipelines(core->device, core->pipeline_cache, 1,
                                                            &info, nullptr, &pipeline->handle_);
  core->vk.vkDestroyShaderModule(core->device, shader, nullptr);
  if (Failure failure = core->check(result, what)) return failure;
  core->name_object(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(pipeline->handle_),
                    desc.name);
  return Ref<Pipeline>(std::move(pipeline));
}

VulkanPipeline::~VulkanPipeline() { give_back(); }

void VulkanPipeline::destroy_native() noexcept {
  core()->vk.vkDestroyPipeline(core()->device, handle_, nullptr);
}

}  // namespace holdfast::hal
