#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/kernel_profile.h"
#include "holdfast/hal/vulkan/vulkan_api.h"

namespace holdfast::hal {

class VulkanCore;
struct VulkanProgress;

// Measures kernels by timestamps before and after each dispatch. What was measured reaches the
// KernelProfile once its list is done. Thread-safe.
class VulkanProfiler {
 public:
  // The timestamps of one list, two for each dispatch.
  class Recording {
   public:
    // Around a dispatch of the kernel.
    void before(const VulkanCore& core, VkCommandBuffer commands, const std::string& kernel);
    void after(const VulkanCore& core, VkCommandBuffer commands);

   private:
    friend class VulkanProfiler;
    explicit Recording(VulkanProfiler& owner) : owner_(owner) {}
    VulkanProfiler& owner_;
    std::vector<VkQueryPool> pools_;
    std::vector<std::string> kernels_;
    bool open_ = false;  // between before() and after(), if there is a pool
  };

  KernelProfile& profile() noexcept { return profile_; }
  bool enabled() const noexcept { return profile_.enabled(); }

  std::unique_ptr<Recording> record() { return std::unique_ptr<Recording>(new Recording(*this)); }
  // The driver has the list, with this value.
  void add(const VulkanProgress& progress, uint64_t value, std::unique_ptr<Recording> recording);
  // The driver does not have it.
  void discard(std::unique_ptr<Recording> recording);
  // Moves what is done to the profile.
  void collect(const VulkanCore& core);
  void destroy(const VulkanCore& core) noexcept;

 private:
  struct Pending {
    const VulkanProgress* progress = nullptr;
    uint64_t value = 0;
    std::unique_ptr<Recording> recording;
  };
  VkQueryPool take_pool(const VulkanCore& core);
  void read(const VulkanCore& core, const Recording& recording);

  KernelProfile profile_;
  sync::Mutex mutex_{sync::LockOrder::profiler};  // guards both
  std::vector<Pending> pending_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<VkQueryPool> spare_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::hal
