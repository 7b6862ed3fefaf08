#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/vulkan/spirv_check.h"
#include "holdfast/hal/vulkan/vulkan_api.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/hal/vulkan/vulkan_instance.h"

namespace holdfast::hal {

class VulkanCore;

// Something that owns handles of a VkDevice. It gives them back when it goes or, where it outlives
// the device, when that is closed; afterwards it calls no driver.
class VulkanObject {
 public:
  VulkanObject(const VulkanObject&) = delete;
  VulkanObject& operator=(const VulkanObject&) = delete;

 protected:
  // While the VkDevice exists (VulkanCore::Use).
  explicit VulkanObject(std::shared_ptr<VulkanCore> core);
  virtual ~VulkanObject();
  // To be called first by the destructor of the class that overrides destroy_native().
  void give_back() noexcept;
  const std::shared_ptr<VulkanCore>& core() const noexcept { return core_; }

 private:
  friend class VulkanCore;
  // Called once, while the VkDevice exists and nothing on it uses the handles.
  virtual void destroy_native() noexcept = 0;

  std::shared_ptr<VulkanCore> core_;
  // Guarded by the core's registry mutex:
  VulkanObject* before_ = nullptr;
  VulkanObject* after_ = nullptr;
  bool given_back_ = false;
};

// How far a queue's timeline semaphore has come.
struct VulkanProgress {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  std::atomic<uint64_t> started{0};  // the newest value that the driver has
  std::atomic<uint64_t> seen{0};     // the newest value seen reached; fixed once the core has ended
};

// A VkQueue; several of ours may share one.
struct VulkanNativeQueue {
  VkQueue handle = VK_NULL_HANDLE;
  uint32_t family = 0;
  bool computes = true;
  sync::LeafMutex mutex;  // held for vkQueueSubmit
};

// How dispatches of kernels with so many descriptors are bound; lives as long as the VkDevice.
struct VulkanLayout {
  VkDescriptorSetLayout set = VK_NULL_HANDLE;  // null without descriptors
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
};

// The VkDevice and what its queues, buffers and pipelines share. Outlives the Device object as long
// as something may still call it. Thread-safe.
class VulkanCore {
 public:
  static Result<std::shared_ptr<VulkanCore>> open(const VulkanOptions& options);
  ~VulkanCore();

  // Keeps the VkDevice from being destroyed for a scope, so not for long. False once it is closed,
  // and in a forked child: then nothing may be called.
  class Use {
   public:
    explicit Use(const VulkanCore& core) noexcept : core_(core), open_(core.enter()) {}
    ~Use() {
      if (open_) core_.leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return open_; }

   private:
    const VulkanCore& core_;
    bool open_;
  };

  // Constant after open(), until close().
  std::shared_ptr<const VulkanInstance> instance;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  PFN_vkQueueSubmit2 queue_submit = nullptr;
  PFN_vkCmdPipelineBarrier2 cmd_barrier = nullptr;
  std::string name;         // "vulkan:0"
  std::string description;  // for people
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

  // How a device ends. First it is stopped, being lost or closed: no list is started any more. Then
  // what the driver has comes to its end. Then the device has ended, for all its queues in one
  // moment: every value that was not seen by then fails with the cause of the stop.

  // The first cause stays.
  void stop(Failure cause) const;
  bool stopped() const noexcept { return stopped_.load(); }
  // None while it is not stopped.
  Failure stop_cause() const;
  // Passes a driver's answer on; a lost device is stopped. None for VK_SUCCESS and such.
  Failure check(VkResult result, std::string_view what) const;

  // To start a list is a right that is held while a list that was or will be accepted is looked at,
  // translated and submitted: while somebody has it, the device cannot end.
  class Start {
   public:
    explicit Start(const VulkanCore& core) noexcept : core_(core) {
      core_.starting_.fetch_add(1);
      allowed_ = !core_.stopped();
    }
    ~Start() { core_.starting_.fetch_sub(1); }
    Start(const Start&) = delete;
    Start& operator=(const Start&) = delete;
    // False: the device is stopped, and nothing may be started.
    explicit operator bool() const noexcept { return allowed_; }

   private:
    const VulkanCore& core_;
    bool allowed_ = false;
  };
  // Whether the device has ended, or does so now. One load while it works. In a forked child it
  // has.
  bool try_end() const noexcept;
  // Once it has.
  Failure end_cause() const;
  // The semaphore's value as far as it can be known; notes it as seen.
  uint64_t look(VulkanProgress& progress) const noexcept;

  // Destroys every handle and the device, once it has ended; waits for callers that are inside.
  void close() noexcept;
  // Something runs on and may touch memory: no handle is destroyed any more.
  void abandon() noexcept { abandoned_.store(true); }

 private:
  friend class VulkanObject;
  VulkanCore() = default;
  bool enter() const noexcept;
  void leave() const noexcept { inside_.fetch_sub(2, std::memory_order_release); }
  bool forked() const noexcept { return fork_generation_ != sync::fork_generation(); }
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

  mutable std::atomic<uint64_t> inside_{0};  // callers, times two; plus one once closed
  mutable std::atomic<uint32_t> memory_objects_{0};
  mutable std::atomic<bool> stopped_{false};
  mutable std::atomic<bool> dead_{false};  // the driver says that it is lost: nothing runs any more
  mutable std::atomic<uint32_t> starting_{0};
  mutable std::atomic<bool> ended_{false};
  std::atomic<bool> abandoned_{false};
  uint32_t fork_generation_ = sync::fork_generation();

  mutable sync::LeafMutex stop_mutex_;  // guards stop_cause_, and the change of ended_ and of seen
  mutable Failure stop_cause_ HOLDFAST_GUARDED_BY(stop_mutex_);  // set before stopped_
  std::vector<std::unique_ptr<VulkanProgress>> progress_;

  sync::LeafMutex layouts_mutex_;  // guards layouts_
  std::array<VulkanLayout, kMaxBindings + 2> layouts_ HOLDFAST_GUARDED_BY(layouts_mutex_){};

  sync::LeafMutex registry_mutex_;  // guards objects_, the links of each, and that device exists
  VulkanObject* objects_ HOLDFAST_GUARDED_BY(registry_mutex_) = nullptr;
};

}  // namespace holdfast::hal
