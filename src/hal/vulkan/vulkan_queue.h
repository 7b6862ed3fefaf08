#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "holdfast/hal/gpu/gpu_queue.h"
#include "holdfast/hal/vulkan/vulkan_encoder.h"

namespace holdfast::hal {

class VulkanProgram;

// A VkQueue, or a share of one.
class VulkanQueue final : public GpuQueue {
 public:
  // `computes`: takes everything, not copies and fills alone.
  VulkanQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
              std::shared_ptr<VulkanCore> core, VulkanNativeQueue& native, bool computes,
              std::shared_ptr<GpuWatcher> watcher, std::shared_ptr<std::atomic<uint64_t>> counter);
  ~VulkanQueue() override;

 protected:
  Failure hand_over(const Work& work, std::span<const Command* const> skipped,
                    ListFailure known) override;
  Failure hand_over_empty(const Work& work) override { return submit(work, VK_NULL_HANDLE); }

 private:
  struct InFlight {
    std::unique_ptr<VulkanCommands> commands;
    TimelineValue value;
  };

  Failure replay(const Work& work, const VulkanProgram& program);
  // With commands whose kernels report: how the work ends is read from that once it has run.
  Failure submit_reporting(const Work& work, const VulkanCommands& commands);
  Failure submit(const Work& work, VkCommandBuffer commands);
  std::unique_ptr<VulkanCommands> take_spare();

  std::shared_ptr<VulkanCore> core_;
  VulkanNativeQueue& native_;
  const bool computes_;

  // Of whoever translates: the task that has the turn or, while lists are kept back, the watcher.
  std::deque<InFlight> in_flight_;
  std::vector<std::unique_ptr<VulkanCommands>> spare_;
  std::vector<VkSemaphoreSubmitInfo> wait_infos_;
};

}  // namespace holdfast::hal
