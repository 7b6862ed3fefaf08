#include "holdfast/hal/vulkan/vulkan_timeline.h"

#include <fmt/format.h>

namespace holdfast::hal {
namespace {

// So long a thread looks at the counter before it sleeps: waking it costs more than short kernels
// take (bench row vulkan_readback).
constexpr sync::Duration kSpin = std::chrono::microseconds(50);
// A sleeping waiter looks this often whether the device was closed or lost.
constexpr sync::Duration kSemaphoreCheck = std::chrono::milliseconds(5);

}  // namespace

PointState VulkanTimeline::answer(uint64_t value) const noexcept {
  return failures_.find(value) != nullptr ? PointState::failed : PointState::reached;
}

PointState VulkanTimeline::query(TimelineValue value) const noexcept {
  if (progress_.seen.load(std::memory_order_acquire) >= value.value) return answer(value.value);
  if (core_->look(progress_) >= value.value) return answer(value.value);
  if (!core_->try_end()) return PointState::pending;
  // What was seen by the end is all there will ever be.
  return progress_.seen.load(std::memory_order_acquire) >= value.value ? answer(value.value)
                                                                       : PointState::failed;
}

Failure VulkanTimeline::failure(TimelineValue value) const {
  if (query(value) != PointState::failed) return {};
  const ListFailure* const found = failures_.find(value.value);
  return found != nullptr ? found->cause : core_->end_cause();
}

std::shared_ptr<const Damage> VulkanTimeline::damage(TimelineValue value) const {
  if (query(value) != PointState::failed) return nullptr;
  const ListFailure* const found = failures_.find(value.value);
  return found != nullptr ? found->damage : nullptr;
}

VkResult VulkanTimeline::sleep(uint64_t value, sync::Duration timeout) const {
  const VulkanCore::Use use(*core_);
  if (!use) return VK_SUCCESS;
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &progress_.semaphore;
  info.pValues = &value;
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 0));
  const VkResult result = core_->vk.vkWaitSemaphores(core_->device, &info, ns);
  if (result < 0) (void)core_->check(result, "it cannot be waited for");
  return result;
}

PointState VulkanTimeline::wait(TimelineValue value, sync::Deadline deadline) const {
  const auto resolved = [&] { return query(value) != PointState::pending; };
  const sync::Deadline spin = earlier(deadline, sync::Deadline::after(kSpin));
  for (unsigned attempt = 0; !resolved(); ++attempt) {
    if (deadline.passed()) break;
    if (!spin.passed()) {
      sync::relax(attempt);
      continue;
    }
    const sync::Deadline slice = earlier(deadline, sync::Deadline::after(kSemaphoreCheck));
    if (sleep(value.value, slice.when() - sync::now()) < 0) sync::relax(attempt);
  }
  return query(value);
}

void VulkanTimeline::wait_unseen(TimelineValue value) const {
  while (query(value) == PointState::pending) sleep(value.value, std::chrono::seconds(1));
}

void VulkanTimeline::will_fail(TimelineValue value, ListFailure failure) {
  const sync::LeafLock lock(mutex_);
  failures_.add_locked(value.value, std::move(failure));
}

void VulkanTimeline::withdraw(TimelineValue value) {
  const sync::LeafLock lock(mutex_);
  failures_.withdraw_locked(value.value);
}

ListFailure VulkanTimeline::known_failure(TimelineValue value) const {
  const ListFailure* const found = failures_.find(value.value);
  return found != nullptr ? *found : ListFailure{failure(value), nullptr};
}

}  // namespace holdfast::hal
