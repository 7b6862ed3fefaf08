#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "holdfast/hal/list_damage.h"
#include "holdfast/hal/queue.h"
#include "holdfast/hal/vulkan/vulkan_encoder.h"
#include "holdfast/hal/vulkan/vulkan_timeline.h"

namespace holdfast::hal {

class VulkanProgram;
class VulkanWatcher;

// Hands lists to a VkQueue, in order. A list that has to wait for the host is kept back, and all
// behind it.
class VulkanQueue final : public Queue {
 public:
  // `computes`: takes everything, not copies and fills alone. `watcher` is null for an immediate
  // queue, which keeps nothing back.
  VulkanQueue(DeviceId device, uint32_t index, Ref<VulkanTimeline> timeline,
              std::shared_ptr<VulkanCore> core, VulkanNativeQueue& native, bool computes,
              std::shared_ptr<VulkanWatcher> watcher,
              std::shared_ptr<std::atomic<uint64_t>> counter);
  ~VulkanQueue() override;

  // From now on execute() answers that the queue is closed.
  void refuse_new_work();
  // Whether every list given so far is resolved.
  bool wait_idle(sync::Deadline deadline) const;
  // Whether the calling task is a native callback of a list that this queue translates.
  bool is_translating_here() const noexcept;

  // The watcher's part. Hands over what was kept back, as far as it may start; adds to `waits_for`
  // what the first that may not waits for outside the device. Whether it handed over any.
  bool start_kept_back(std::vector<Point>& waits_for);

 protected:
  Failure execute(const Work& work) override;

 private:
  struct InFlight {
    std::unique_ptr<VulkanCommands> commands;
    TimelineValue value;
  };

  const VulkanTimeline* own(const Wait& wait) const noexcept;
  // Whether what it waits for is resolved, or will be whatever the host does.
  bool may_start(const Work& work) const;
  Failure keep_back(const Work& work);
  // What the waits of the work hand on to it. That is known before the work starts: a list that the
  // driver has fails only with the whole device.
  void inherit(const Work& work, ListDamage& damage) const;
  // Translates and submits, with the right to start. A failure means that the driver has nothing of
  // it. Once the driver has it the work may be gone.
  Failure start(const Work& work);
  // Without the commands in `skipped`, which come in recorded order. `known`: how the list
  // fails although the others run; none: not at all.
  Failure start_list(const Work& work, std::span<const Command* const> skipped = {},
                     ListFailure known = {});
  // Bytes that the work reads may be bad: starts what does not depend on them.
  Failure start_damaged(const Work& work, ListDamage& damage);
  Failure start_replay(const Work& work, const VulkanProgram& program);
  // Its value fails once the driver gets there, with these commands or, where there are none,
  // without having run anything.
  Failure start_failed(const Work& work, ListFailure failure,
                       VkCommandBuffer commands = VK_NULL_HANDLE);
  Failure submit(const Work& work, VkCommandBuffer commands);
  std::unique_ptr<VulkanCommands> take_spare();

  Ref<VulkanTimeline> semaphore_;  // the queue's timeline, as what it is
  std::shared_ptr<VulkanCore> core_;
  VulkanNativeQueue& native_;
  const bool computes_;
  std::shared_ptr<VulkanWatcher> watcher_;

  // Of whoever translates: the task that has the turn or, while lists are kept back, the watcher.
  std::deque<InFlight> in_flight_;
  std::vector<std::unique_ptr<VulkanCommands>> spare_;
  std::vector<VkSemaphoreSubmitInfo> wait_infos_;

  // Of the list that is being translated: the queue that its user knows. Compared, never
  // dereferenced.
  std::atomic<const Queue*> translating_for_{nullptr};

  mutable sync::LeafMutex mutex_;  // guards all below
  std::deque<const Work*> kept_back_ HOLDFAST_GUARDED_BY(mutex_);
  bool refusing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  uint64_t accepted_ HOLDFAST_GUARDED_BY(mutex_) = 0;  // the value of the newest list accepted
};

}  // namespace holdfast::hal
