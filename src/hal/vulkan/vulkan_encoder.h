#pragma once

#include <span>
#include <vector>

#include "holdfast/hal/queue.h"
#include "holdfast/hal/vulkan/vulkan_core.h"

namespace holdfast::hal {

class VulkanPipeline;

// A command buffer and what its commands need besides what the list holds: descriptor sets where
// there are no push descriptors, parameters that push constants have no room for, and memory for
// reports. Used again and again, each time once the driver is done with it. One user at a time.
class VulkanCommands final : private VulkanObject {
 public:
  static Result<std::unique_ptr<VulkanCommands>> create(const std::shared_ptr<VulkanCore>& core,
                                                        uint32_t family);
  ~VulkanCommands() override;

  VkCommandBuffer handle() const noexcept { return buffer_; }
  uint32_t family() const noexcept { return family_; }

  // Empty again, and ready to record.
  Failure begin(bool once);
  Failure end();

  // Host-visible memory for the device to read, until begin().
  struct Spill {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceSize offset = 0;
    VkDeviceAddress address = 0;
    std::byte* host = nullptr;
  };
  Result<Spill> spill(VkDeviceSize bytes);
  Result<VkDescriptorSet> descriptor_set(VkDescriptorSetLayout layout);

  // What a dispatch reports to (SpirvModule::report), until begin().
  struct Report {
    const Command* command = nullptr;  // in the list, or in its Program
    const VulkanPipeline* pipeline = nullptr;
    std::byte* host = nullptr;
  };
  // The memory's address.
  Result<VkDeviceAddress> add_report(const Command& command, const VulkanPipeline& pipeline);
  const std::vector<Report>& reports() const noexcept { return reports_; }
  // Before every submission.
  void clear_reports() const noexcept;

 private:
  VulkanCommands(const std::shared_ptr<VulkanCore>& core, uint32_t family)
      : VulkanObject(core), family_(family) {}
  void destroy_native() noexcept override;

  uint32_t family_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer buffer_ = VK_NULL_HANDLE;
  struct Chunk {
    VulkanCore::Memory memory;
    VkDeviceSize size = 0;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;
  VkDeviceSize chunk_used_ = 0;
  std::vector<VkDescriptorPool> sets_;
  size_t set_pool_ = 0;
  std::vector<Report> reports_;
};

// Translates a work into `commands`: a barrier that stands for the end of the list before, then the
// commands with one barrier between waves, then, where memory was written that the host reaches,
// one that shows it. A failure of code execution is the list's (a native callback threw); any other
// is the driver's, or that of a list which wants more than a queue for copies does. `once`: the
// commands are submitted once. `computes`: whether the queue does. `skipped`: commands to leave
// out, in recorded order. `timing`: to measure each dispatch; null: none is.
Failure translate(const VulkanCore& core, const Work& work, VulkanCommands& commands, bool once,
                  bool computes, std::span<const Command* const> skipped = {},
                  VulkanProfiler::Recording* timing = nullptr);

}  // namespace holdfast::hal
