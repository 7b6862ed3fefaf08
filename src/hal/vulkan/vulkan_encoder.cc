#include "holdfast/hal/vulkan/vulkan_encoder.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "holdfast/base/rounding.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"

namespace holdfast::hal {
namespace {

// Memory for spilled parameters is taken this much at a time.
constexpr VkDeviceSize kSpillChunk = 64 * 1024;
// Enough for every alignment that a storage buffer may ask for.
constexpr VkDeviceSize kSpillAlignment = 256;
constexpr uint32_t kSetsPerPool = 256;

constexpr VkAccessFlags2 kAny = VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT;

}  // namespace

Result<std::unique_ptr<VulkanCommands>> VulkanCommands::create(
    const std::shared_ptr<VulkanCore>& core, uint32_t family) {
  std::unique_ptr<VulkanCommands> made(new VulkanCommands(core, family));
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = family;
  if (Failure failure =
          core->check(core->vk.vkCreateCommandPool(core->device, &pool, nullptr, &made->pool_),
                      "no command pool")) {
    return failure;
  }
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = made->pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  if (Failure failure =
          core->check(core->vk.vkAllocateCommandBuffers(core->device, &info, &made->buffer_),
                      "no command buffer")) {
    return failure;
  }
  return made;
}

VulkanCommands::~VulkanCommands() { give_back(); }

void VulkanCommands::destroy_native() noexcept {
  const VulkanCore& c = *core();
  c.vk.vkDestroyCommandPool(c.device, pool_, nullptr);
  for (const Chunk& chunk : chunks_) c.free(chunk.memory);
  for (VkDescriptorPool pool : sets_) c.vk.vkDestroyDescriptorPool(c.device, pool, nullptr);
}

Failure VulkanCommands::begin(bool once) {
  const VulkanCore& c = *core();
  chunk_ = 0;
  chunk_used_ = 0;
  reports_.clear();
  for (size_t i = 0; i < sets_.size() && i <= set_pool_; ++i) {
    c.vk.vkResetDescriptorPool(c.device, sets_[i], 0);
  }
  set_pool_ = 0;
  if (Failure failure =
          c.check(c.vk.vkResetCommandPool(c.device, pool_, 0), "no memory for commands")) {
    return failure;
  }
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  if (once) info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return c.check(c.vk.vkBeginCommandBuffer(buffer_, &info), "no memory for commands");
}

Failure VulkanCommands::end() {
  return core()->check(core()->vk.vkEndCommandBuffer(buffer_), "no memory for commands");
}

Result<VulkanCommands::Spill> VulkanCommands::spill(VkDeviceSize bytes) {
  bytes = round_up(bytes, kSpillAlignment);
  if (chunk_ < chunks_.size() && chunks_[chunk_].size > 0 &&
      chunk_used_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    chunk_used_ = 0;
  }
  if (chunk_ == chunks_.size()) chunks_.emplace_back();
  if (chunks_[chunk_].size == 0) {
    Result<VulkanCore::Memory> memory =
        core()->allocate(Bytes{kSpillChunk}, MemoryKind::upload, true, "no memory for parameters");
    if (!memory) return memory.failure();
    chunks_.back() = {memory.value(), kSpillChunk};
  }
  const VulkanCore::Memory& memory = chunks_[chunk_].memory;
  const Spill result{memory.buffer, chunk_used_, memory.address + chunk_used_,
                     memory.host + chunk_used_};
  chunk_used_ += bytes;
  return result;
}

Result<VkDeviceAddress> VulkanCommands::add_report(const Command& command,
                                                   const VulkanPipeline& pipeline) {
  const Result<Spill> memory = spill(pipeline.report()->size.value);
  if (!memory) return memory.failure();
  reports_.push_back({&command, &pipeline, memory.value().host});
  return memory.value().address;
}

void VulkanCommands::clear_reports() const noexcept {
  for (const Report& report : reports_) {
    std::memset(report.host, 0, report.pipeline->report()->size.value);
  }
}

Result<VkDescriptorSet> VulkanCommands::descriptor_set(VkDescriptorSetLayout layout) {
  const VulkanCore& c = *core();
  for (;;) {
    const bool fresh = set_pool_ == sets_.size();
    if (fresh) {
      const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      kSetsPerPool * (kMaxBindings + 1)};
      VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
      info.maxSets = kSetsPerPool;
      info.poolSizeCount = 1;
      info.pPoolSizes = &size;
      VkDescriptorPool pool = VK_NULL_HANDLE;
      if (Failure failure = c.check(c.vk.vkCreateDescriptorPool(c.device, &info, nullptr, &pool),
                                    "no memory for descriptors")) {
        return failure;
      }
      sets_.push_back(pool);
    }
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorPool = sets_[set_pool_];
    info.descriptorSetCount = 1;
    info.pSetLayouts = &layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    const VkResult result = c.vk.vkAllocateDescriptorSets(c.device, &info, &set);
    if (result == VK_SUCCESS) return set;
    if (fresh) return c.check(result, "no memory for descriptors");
    ++set_pool_;
  }
}

namespace {

// What a binding is on the device, slots resolved.
struct DevicePlace {
  const VulkanBuffer* buffer = nullptr;
  VkDeviceSize offset = 0;
  VkDeviceSize length = 0;
};

class Translation {
 public:
  Translation(const VulkanCore& core, const Work& work, VulkanCommands& commands, bool computes,
              std::span<const Command* const> skipped, VulkanProfiler::Recording* timing)
      : core_(core),
        vk_(core.vk),
        work_(work),
        replay_(*work.list),
        list_(replay_.program() != nullptr ? replay_.program()->list() : replay_),
        commands_(commands),
        handle_(commands.handle()),
        computes_(computes),
        skipped_(skipped),
        timing_(timing),
        work_stages_(computes ? VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT |
                                    VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT
                              : VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT) {}

  Failure run(bool once) {
    if (Failure failure = commands_.begin(once)) return failure;
    // Lists of one queue run as if a barrier stood between them.
    barrier(VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, kAny);
    Failure failure = work_.only != nullptr ? add(*work_.only) : add_all();
    if (failure) {
      (void)commands_.end();
      return failure;
    }
    if (shows_host_) {
      barrier(native_ ? VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT : work_stages_,
              VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
    }
    return commands_.end();
  }

 private:
  void barrier(VkPipelineStageFlags2 from, VkPipelineStageFlags2 to, VkAccessFlags2 access) {
    VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
    memory.srcStageMask = from;
    memory.srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT;
    memory.dstStageMask = to;
    memory.dstAccessMask = access;
    VkDependencyInfo info{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &memory;
    core_.cmd_barrier(handle_, &info);
  }

  // Before a command that does something.
  void begin_command(bool native) {
    if (wave_over_) {
      const bool any = native || native_;
      const VkPipelineStageFlags2 stages =
          any ? VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT : work_stages_;
      barrier(stages, stages, kAny);
      wave_over_ = false;
    }
    has_work_ = true;
    native_ = native_ || native;
  }

  DevicePlace place(const BoundRange& bound) {
    const BoundRange* target = &bound;
    Bytes offset = bound.range.offset;
    if (bound.slot >= 0) {
      target = &replay_.slots()[static_cast<size_t>(bound.slot)];
      offset += target->range.offset;
    }
    const Allocation& allocation = *target->allocation;
    const auto& buffer = static_cast<const VulkanBuffer&>(*allocation.buffer());
    shows_host_ |= writes(bound.access) && buffer.is_mapped();
    return {&buffer, (allocation.offset() + offset).value, bound.range.length.value};
  }

  Failure add_all() {
    for (const Command& command : list_) {
      if (command.is_mark()) continue;
      if (!skipped_.empty() && skipped_.front() == &command) {
        skipped_ = skipped_.subspan(1);
      } else if (command.kind == CommandKind::barrier) {
        wave_over_ = has_work_;
      } else if (Failure failure = add(command)) {
        return failure;
      }
    }
    return {};
  }

  Failure add(const Command& command) {
    const bool copies = command.kind == CommandKind::copy || command.kind == CommandKind::fill;
    if (!copies && !computes_) {
      return Failure(
          ErrorCode::usage,
          fmt::format("{} has a {} command, and was submitted to a queue that copies and "
                      "fills alone",
                      replay_.describe(), to_string(command.kind)));
    }
    switch (command.kind) {
      case CommandKind::dispatch: return dispatch(command);
      case CommandKind::copy: copy(command); break;
      case CommandKind::fill: fill(command); break;
      case CommandKind::native: return native(command);
      default: break;
    }
    return {};
  }

  Failure dispatch(const Command& command) {
    const Groups groups = command.groups;
    if (groups.count() == 0) return {};
    begin_command(false);
    const auto& pipeline = static_cast<const VulkanPipeline&>(*command.pipeline);
    const std::span<const std::byte> parameters = replay_.parameters_of(command);
    const Result<VkPipeline> sized = pipeline.handle_for(parameters);
    if (!sized) return sized.failure();
    if (sized.value() != bound_pipeline_) {
      bound_pipeline_ = sized.value();
      vk_.vkCmdBindPipeline(handle_, VK_PIPELINE_BIND_POINT_COMPUTE, bound_pipeline_);
    }
    Failure failure = pipeline.by_address() ? bind_addresses(pipeline, command, parameters)
                                            : bind_descriptors(pipeline, command, parameters);
    if (failure) return failure;
    if (timing_ != nullptr) timing_->before(core_, handle_, pipeline.name());
    vk_.vkCmdDispatch(handle_, groups.x, groups.y, groups.z);
    if (timing_ != nullptr) timing_->after(core_, handle_);
    return {};
  }

  // Push constants stay until they are overwritten: all layouts agree on them. What they are to be
  // stands in `next_`, with zeros after it up to a multiple of eight, and all of that is pushed:
  // `pushed_` is what the device has, byte for byte.
  void push(VkPipelineLayout layout, size_t bytes) {
    const size_t words = (bytes + 7) / 8;
    if (words <= pushed_words_ &&
        std::equal(next_.begin(), next_.begin() + words, pushed_.begin())) {
      return;
    }
    pushed_words_ = words;
    std::copy(next_.begin(), next_.begin() + words, pushed_.begin());
    vk_.vkCmdPushConstants(handle_, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           static_cast<uint32_t>(words * sizeof(uint64_t)), next_.data());
  }

  Failure bind_addresses(const VulkanPipeline& pipeline, const Command& command,
                         std::span<const std::byte> parameters) {
    size_t words = 0;
    for (const BoundRange& bound : command.bindings()) {
      const DevicePlace at = place(bound);
      next_[words++] = at.buffer->address() + at.offset;
    }
    if (pipeline.takes_lengths()) {
      for (const BoundRange& bound : command.bindings()) next_[words++] = place(bound).length;
    }
    if (pipeline.report() != nullptr) {
      const Result<VkDeviceAddress> report = commands_.add_report(command, pipeline);
      if (!report) return report.failure();
      next_[words++] = report.value();
      shows_host_ = true;
    }
    put_parameters(words, parameters);
    const size_t bytes = pipeline.block_bytes();
    if (pipeline.spills()) {
      Result<VulkanCommands::Spill> spill = commands_.spill(bytes);
      if (!spill) return spill.failure();
      std::memcpy(spill.value().host, next_.data(), bytes);
      next_[0] = spill.value().address;
      push(pipeline.layout().pipeline, sizeof(uint64_t));
    } else if (bytes > 0) {
      push(pipeline.layout().pipeline, bytes);
    }
    return {};
  }

  void put_parameters(size_t at, std::span<const std::byte> parameters) {
    if (parameters.empty()) return;
    next_[at + (parameters.size() - 1) / 8] = 0;
    std::memcpy(&next_[at], parameters.data(), parameters.size());
  }

  Failure bind_descriptors(const VulkanPipeline& pipeline, const Command& command,
                           std::span<const std::byte> parameters) {
    std::array<VkDescriptorBufferInfo, kMaxBindings + 1> infos;
    uint32_t count = 0;
    for (const BoundRange& bound : command.bindings()) {
      const DevicePlace at = place(bound);
      infos[count++] = at.length > 0
                           ? VkDescriptorBufferInfo{at.buffer->handle(), at.offset, at.length}
                           // A descriptor has at least a byte; what nobody bound may not be used.
                           : core_.nothing();
    }
    if (pipeline.spills()) {
      Result<VulkanCommands::Spill> spill = commands_.spill(parameters.size());
      if (!spill) return spill.failure();
      std::memcpy(spill.value().host, parameters.data(), parameters.size());
      infos[count++] = {spill.value().buffer, spill.value().offset,
                        (parameters.size() + 3) / 4 * 4};
    } else if (!parameters.empty()) {
      put_parameters(0, parameters);
      push(pipeline.layout().pipeline, parameters.size());
    }
    // Bound before and not disturbed since.
    if (count == 0 || (bound_layout_ == pipeline.layout().pipeline &&
                       std::memcmp(bound_.data(), infos.data(), count * sizeof infos[0]) == 0)) {
      return {};
    }
    bound_layout_ = pipeline.layout().pipeline;
    std::memcpy(bound_.data(), infos.data(), count * sizeof infos[0]);
    // One write goes on through the bindings that follow, which are all alike.
    VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.descriptorCount = count;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = infos.data();
    if (core_.has_push_descriptors) {
      vk_.vkCmdPushDescriptorSetKHR(handle_, VK_PIPELINE_BIND_POINT_COMPUTE, bound_layout_, 0, 1,
                                    &write);
      return {};
    }
    Result<VkDescriptorSet> set = commands_.descriptor_set(pipeline.layout().set);
    if (!set) return set.failure();
    write.dstSet = set.value();
    vk_.vkUpdateDescriptorSets(core_.device, 1, &write, 0, nullptr);
    vk_.vkCmdBindDescriptorSets(handle_, VK_PIPELINE_BIND_POINT_COMPUTE, bound_layout_, 0, 1,
                                &set.value(), 0, nullptr);
    return {};
  }

  void copy(const Command& command) {
    const DevicePlace from = place(command.bindings()[0]);
    const DevicePlace to = place(command.bindings()[1]);
    if (from.length == 0) return;
    begin_command(false);
    const VkBufferCopy region{from.offset, to.offset, from.length};
    vk_.vkCmdCopyBuffer(handle_, from.buffer->handle(), to.buffer->handle(), 1, &region);
  }

  // Vulkan fills words; what lies before the first and after the last is copied.
  void fill(const Command& command) {
    const DevicePlace to = place(command.bindings()[0]);
    if (to.length == 0) return;
    begin_command(false);
    const VkDeviceSize end = to.offset + to.length;
    const VkDeviceSize first = std::min((to.offset + 3) / 4 * 4, end);
    const VkDeviceSize last = std::max(end / 4 * 4, first);
    const auto value = std::to_integer<uint32_t>(command.fill_value);
    if (last > first) {
      vk_.vkCmdFillBuffer(handle_, to.buffer->handle(), first, last - first, value * 0x01010101U);
    }
    std::array<VkBufferCopy, 2> ends;
    uint32_t count = 0;
    if (first > to.offset) ends[count++] = {value * 4, to.offset, first - to.offset};
    if (end > last) ends[count++] = {value * 4, last, end - last};
    if (count > 0) {
      vk_.vkCmdCopyBuffer(handle_, core_.byte_table().buffer, to.buffer->handle(), count,
                          ends.data());
    }
  }

  Failure native(const Command& command) {
    begin_command(true);
    std::array<NativeBinding, kMaxBindings> bindings;
    size_t count = 0;
    for (const BoundRange& bound : command.bindings()) {
      const DevicePlace at = place(bound);
      const uint64_t address = at.buffer->address();
      bindings[count++] = {reinterpret_cast<uint64_t>(at.buffer->handle()), at.offset, at.length,
                           address != 0 ? address + at.offset : 0};
    }
    bound_pipeline_ = VK_NULL_HANDLE;
    bound_layout_ = VK_NULL_HANDLE;
    pushed_words_ = 0;
    std::string why;
    try {
      const Queue::Executing executing(work_.queue);
      list_.native_callback(command)({handle_, {}, {bindings.data(), count}});
      return {};
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "an exception that is no std::exception";
    }
    return Failure(
        ErrorCode::execution,
        fmt::format("a native command{} failed as command {} of {}: {}",
                    command.label().empty() ? std::string()
                                            : fmt::format(", labelled '{}',", command.label()),
                    list_.index_of(command), replay_.describe(), why));
  }

  const VulkanCore& core_;
  const VolkDeviceTable& vk_;
  const Work& work_;
  const CommandList& replay_;
  const CommandList& list_;
  VulkanCommands& commands_;
  VkCommandBuffer handle_;
  const bool computes_;
  std::span<const Command* const> skipped_;  // those yet to come
  VulkanProfiler::Recording* const timing_;
  const VkPipelineStageFlags2 work_stages_;

  bool has_work_ = false;
  bool wave_over_ = false;  // a barrier is due before the next command
  bool shows_host_ = false;
  bool native_ = false;

  VkPipeline bound_pipeline_ = VK_NULL_HANDLE;
  VkPipelineLayout bound_layout_ = VK_NULL_HANDLE;
  std::array<VkDescriptorBufferInfo, kMaxBindings + 1> bound_;
  size_t pushed_words_ = 0;
  std::array<uint64_t, SpirvModule::kMaxPushBytes.value / 8> pushed_;
  std::array<uint64_t, 2 * kMaxBindings + 1 + kMaxParameterBytes.value / 8> next_;
};

}  // namespace

Failure translate(const VulkanCore& core, const Work& work, VulkanCommands& commands, bool once,
                  bool computes, std::span<const Command* const> skipped,
                  VulkanProfiler::Recording* timing) {
  return Translation(core, work, commands, computes, skipped, timing).run(once);
}

}  // namespace holdfast::hal
