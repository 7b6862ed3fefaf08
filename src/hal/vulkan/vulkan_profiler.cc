#include "holdfast/hal/vulkan/vulkan_profiler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "holdfast/hal/vulkan/vulkan_core.h"

namespace holdfast::hal {
namespace {

constexpr uint32_t kDispatchesPerPool = 128;

}  // namespace

void VulkanProfiler::Recording::before(const VulkanCore& core, VkCommandBuffer commands,
                                       const std::string& kernel) {
  const auto at = static_cast<uint32_t>(kernels_.size() % kDispatchesPerPool);
  if (at == 0) {
    const VkQueryPool pool = owner_.take_pool(core);
    if (pool == VK_NULL_HANDLE) return;  // the dispatch is not measured
    pools_.push_back(pool);
    core.vk.vkCmdResetQueryPool(commands, pool, 0, 2 * kDispatchesPerPool);
  }
  kernels_.push_back(kernel);
  open_ = true;
  core.vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pools_.back(),
                              2 * at);
}

void VulkanProfiler::Recording::after(const VulkanCore& core, VkCommandBuffer commands) {
  if (!std::exchange(open_, false)) return;
  const auto at = static_cast<uint32_t>((kernels_.size() - 1) % kDispatchesPerPool);
  core.vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pools_.back(),
                              2 * at + 1);
}

VkQueryPool VulkanProfiler::take_pool(const VulkanCore& core) {
  {
    const sync::Lock lock(mutex_);
    if (!spare_.empty()) {
      const VkQueryPool spare = spare_.back();
      spare_.pop_back();
      return spare;
    }
  }
  VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2 * kDispatchesPerPool;
  VkQueryPool made = VK_NULL_HANDLE;
  const VkResult result = core.vk.vkCreateQueryPool(core.device, &info, nullptr, &made);
  return result == VK_SUCCESS ? made : VK_NULL_HANDLE;
}

void VulkanProfiler::add(const VulkanProgress& progress, uint64_t value,
                         std::unique_ptr<Recording> recording) {
  const sync::Lock lock(mutex_);
  pending_.push_back({&progress, value, std::move(recording)});
}

void VulkanProfiler::discard(std::unique_ptr<Recording> recording) {
  const sync::Lock lock(mutex_);
  spare_.insert(spare_.end(), recording->pools_.begin(), recording->pools_.end());
}

void VulkanProfiler::read(const VulkanCore& core, const Recording& recording) {
  std::array<uint64_t, size_t{2} * kDispatchesPerPool> ticks{};
  for (size_t first = 0; first < recording.kernels_.size(); first += kDispatchesPerPool) {
    const size_t count = std::min<size_t>(kDispatchesPerPool, recording.kernels_.size() - first);
    const VkResult result =
        core.vk.vkGetQueryPoolResults(core.device, recording.pools_[first / kDispatchesPerPool], 0,
                                      static_cast<uint32_t>(2 * count), sizeof ticks, ticks.data(),
                                      sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
    if (result != VK_SUCCESS) continue;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t passed = ticks[2 * i + 1] - ticks[2 * i];
      profile_.add(
          recording.kernels_[first + i], 1,
          std::chrono::duration_cast<sync::Duration>(std::chrono::duration<double, std::nano>(
              static_cast<double>(passed) * core.limits.timestampPeriod)));
    }
  }
}

void VulkanProfiler::collect(const VulkanCore& core) {
  std::vector<Pending> done;
  {
    const sync::Lock lock(mutex_);
    for (size_t i = 0; i < pending_.size();) {
      auto& progress = const_cast<VulkanProgress&>(*pending_[i].progress);
      if (core.look(progress) < pending_[i].value) {
        ++i;
        continue;
      }
      done.push_back(std::move(pending_[i]));
      pending_[i] = std::move(pending_.back());
      pending_.pop_back();
    }
  }
  for (Pending& one : done) {
    read(core, *one.recording);
    discard(std::move(one.recording));
  }
}

void VulkanProfiler::destroy(const VulkanCore& core) noexcept {
  const sync::Lock lock(mutex_);
  for (const Pending& pending : pending_) {
    for (VkQueryPool pool : pending.recording->pools_) {
      core.vk.vkDestroyQueryPool(core.device, pool, nullptr);
    }
  }
  pending_.clear();
  for (VkQueryPool pool : spare_) core.vk.vkDestroyQueryPool(core.device, pool, nullptr);
  spare_.clear();
}

}  // namespace holdfast::hal
