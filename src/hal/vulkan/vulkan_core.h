#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/gpu/gpu_core.h"
#include "holdfast/hal/vulkan/spirv_check.h"
#include "holdfast/hal/vulkan/vulkan_api.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/hal/vulkan/vulkan_instance.h"
#include "holdfast/hal/vulkan/vulkan_profiler.h"

namespace holdfast::hal {

class VulkanCore;

// Something that owns handles of a VkDevice.
class VulkanObject : public GpuObject {
 protected:
  explicit VulkanObject(const std::shared_ptr<VulkanCore>& core);
  ~VulkanObject() override;
  const std::shared_ptr<VulkanCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<VulkanCore> core_;
};

// A queue's timeline semaphore.
struct VulkanProgress : GpuProgress {
  VkSemaphore semaphore = VK_NULL_HANDLE;
};

// A VkQueue; several of ours may share one.
struct VulkanNativeQueue {
  VkQueue handle = VK_NULL_HANDLE;
  uint32_t family = 0;
  bool computes = true;
  bool has_timestamps = false;
  sync::LeafMutex mutex;  // held for vkQueueSubmit
};

// How dispatches of kernels with so many descriptors are bound; lives as long as the VkDevice.
struct VulkanLayout {
  VkDescriptorSetLayout set = VK_NULL_HANDLE;  // null without descriptors
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
};

// The VkDevice and what its queues, buffers and pipelines share. Thread-safe.
class VulkanCore final : public GpuCore {
 public:
  static Result<std::shared_ptr<VulkanCore>> open(const VulkanOptions& options);
  ~VulkanCore() override;

  // Constant after open(), until close().
  std::shared_ptr<const VulkanInstance> instance;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  PFN_vkQueueSubmit2 queue_submit = nullptr;
  PFN_vkCmdPipelineBarrier2 cmd_barrier = nullptr;
  VkPhysicalDeviceLimits limits{};
  VulkanFeatures features{};
  bool has_push_descriptors = false;
  bool can_import_host_memory = false;
  VkDeviceSize import_alignment = 0;
  std::array<uint32_t, kMemoryKinds> memory_types{};
  std::array<Bytes, kMemoryKinds> heap_sizes{};
  bool device_memory_host_visible = false;
  Bytes max_buffer;
  Bytes memory_limit;
  // Together the device's limit, less some for spilled parameters.
  uint32_t max_buffers = 0;
  uint32_t max_imports = 0;
  std::vector<uint32_t> families;                               // that buffers are shared among
  std::vector<std::unique_ptr<VulkanNativeQueue>> queues;       // that compute
  std::vector<std::unique_ptr<VulkanNativeQueue>> copy_queues;  // that do not
  VkPipelineCache pipeline_cache = VK_NULL_HANDLE;

  mutable VulkanProfiler profiler;

  // Of buffers given out; spilled parameters and imports are not counted.
  mutable std::atomic<uint64_t> used_bytes{0};

  // Kernels with this many descriptors; made at the first call for each.
  Result<VulkanLayout> layout(uint32_t descriptors);
  // A new semaphore for a queue; lives as long as the core, and its handle as the VkDevice. Before
  // the first list is started.
  Result<VulkanProgress*> make_progress(const std::string& name);
  // A new VkBuffer with memory of its own, mapped or not. Out of memory where the device's limit of
  // memory objects is reached, too.
  struct Memory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceAddress address = 0;
    std::byte* host = nullptr;
  };
  Result<Memory> allocate(Bytes size, MemoryKind kind, bool map, std::string_view what) const;
  Result<Memory> import(void* data, Bytes size, std::string_view what) const;
  void free(const Memory& memory) const noexcept;
  // For messages of the layers.
  void name_object(VkObjectType type, uint64_t handle, const std::string& label) const;

  // Every byte value, four times each: the ends of fills that are no whole word are copied from
  // here.
  const Memory& byte_table() const noexcept { return byte_table_; }
  // What descriptors of empty ranges point to: four bytes that nobody reads.
  VkDescriptorBufferInfo nothing() const noexcept { return {byte_table_.buffer, 1024, 4}; }

  // Passes a driver's answer on; a lost device is stopped. None for VK_SUCCESS and such.
  Failure check(VkResult result, std::string_view what) const;

  bool sleep(const GpuProgress& progress, uint64_t value, sync::Duration timeout) const override;

 protected:
  std::optional<uint64_t> read(const GpuProgress& progress) const noexcept override;
  void begin_closing() noexcept override;
  void finish_closing() noexcept override;

 private:
  VulkanCore() = default;
  Failure choose_memory(const VulkanOptions& options);
  Failure make_byte_table();
  void load_pipeline_cache();
  void save_pipeline_cache();
  Result<Memory> bind(VkBuffer buffer, const void* chain, VkDeviceSize size, uint32_t type,
                      std::string_view what) const;

  Memory byte_table_;
  std::filesystem::path pipeline_cache_file_;
  std::string pipeline_cache_key_;
  size_t pipeline_cache_loaded_ = 0;

  mutable std::atomic<uint32_t> memory_objects_{0};
  std::vector<std::unique_ptr<VulkanProgress>> semaphores_;

  sync::LeafMutex layouts_mutex_;  // guards layouts_
  std::array<VulkanLayout, kMaxBindings + 2> layouts_ HOLDFAST_GUARDED_BY(layouts_mutex_){};
};

}  // namespace holdfast::hal
