#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/pipeline.h"
#include "holdfast/hal/vulkan/vulkan_core.h"

namespace holdfast::hal {

// A VkBuffer with memory of its own, or over imported pages.
class VulkanBuffer final : public Buffer, private VulkanObject {
 public:
  static Result<Ref<Buffer>> create(DeviceId device, const BufferDesc& desc,
                                    const std::shared_ptr<VulkanCore>& core);
  static Result<Ref<Buffer>> import(DeviceId device, ExternalMemory& memory,
                                    const std::shared_ptr<VulkanCore>& core);
  ~VulkanBuffer() override;

  std::byte* host_pointer() const noexcept override { return memory_.host; }
  bool is_mapped() const noexcept { return memory_.host != nullptr; }
  VkBuffer handle() const noexcept { return memory_.buffer; }
  VkDeviceAddress address() const noexcept { return memory_.address; }

 private:
  VulkanBuffer(DeviceId device, Bytes size, MemoryKind kind, std::string name, bool imported,
               const std::shared_ptr<VulkanCore>& core, VulkanCore::Memory memory)
      : Buffer(device, size, kind, std::move(name), imported),
        VulkanObject(core),
        memory_(memory) {}
  void destroy_native() noexcept override;

  VulkanCore::Memory memory_;
  std::function<void()> deleter_;
  uint32_t fork_generation_ = sync::fork_generation();
};

class VulkanPipeline final : public Pipeline, private VulkanObject {
 public:
  static Result<Ref<Pipeline>> create(DeviceId device, PipelineDesc desc,
                                      const std::shared_ptr<VulkanCore>& core);
  ~VulkanPipeline() override;

  // What runs a dispatch with these parameters. Where they say the group's size, the first of its
  // size makes it, which takes the driver milliseconds; a failure says why the device cannot.
  Result<VkPipeline> handle_for(std::span<const std::byte> parameters) const;
  const VulkanLayout& layout() const noexcept { return layout_; }
  bool by_address() const noexcept { return by_address_; }
  bool takes_lengths() const noexcept { return takes_lengths_; }
  // Null where the kernel reports nothing.
  const SpirvModule::Report* report() const noexcept { return report_ ? &*report_ : nullptr; }
  // The block of addresses and parameters, or the parameters alone.
  uint32_t block_bytes() const noexcept { return block_bytes_; }
  bool spills() const noexcept { return block_bytes_ > SpirvModule::kMaxPushBytes.value; }

 private:
  VulkanPipeline(DeviceId device, const PipelineDesc& desc, BindingLimits limits,
                 const std::shared_ptr<VulkanCore>& core)
      : Pipeline(device, desc.name, desc.bindings, desc.parameter_bytes, limits),
        VulkanObject(core) {}
  void destroy_native() noexcept override;
  Result<VkPipeline> make(const SpirvModule& module, std::span<const SpirvModule::Constant> more,
                          VkShaderModule shader) const;

  // One size of groups, where dispatches say it.
  struct Sized {
    Groups threads;
    VkPipeline handle = VK_NULL_HANDLE;
  };
  VkPipeline handle_ = VK_NULL_HANDLE;   // of a module with a size of its own
  std::optional<SpirvModule> module_{};  // of one without
  VkShaderModule shader_ = VK_NULL_HANDLE;
  mutable sync::LeafMutex mutex_;  // guards sized_
  mutable std::vector<Sized> sized_ HOLDFAST_GUARDED_BY(mutex_);
  VulkanLayout layout_;
  bool by_address_ = false;
  bool takes_lengths_ = false;
  std::optional<SpirvModule::Report> report_{};
  uint32_t descriptors_ = 0;  // the one for parameters included
  uint32_t block_bytes_ = 0;
};

}  // namespace holdfast::hal
