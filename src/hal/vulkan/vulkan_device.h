#pragma once

#include <memory>
#include <optional>
#include <string>

#include "holdfast/hal/devices.h"
#include "holdfast/hal/gpu/gpu_device.h"

namespace holdfast::hal {

class VulkanCore;

struct VulkanOptions {
  // Which physical device: its index ("0"), a part of its name ("h200"), or empty for the best.
  std::string device{};
  // Zero: one for each queue of the first family that computes, of one that does nothing else if
  // there is such. More are taken from the other families that compute, and more than the hardware
  // has share its queues.
  uint32_t queues = 0;
  // Queues for copies alone, which run beside kernels and do not slow them (docs/devices.md).
  // Unset: one where the hardware has a family for that. More than it has share the queues there
  // are.
  std::optional<uint32_t> copy_queues{};
  // Off: memory of kind device is never mapped, as on a discrete GPU. On where the host has no such
  // memory: refused. Unset: where it is the same memory.
  std::optional<bool> device_memory_host_visible{};
  // Off: descriptor sets from pools, as on a device without push descriptors.
  bool push_descriptors = true;
  // A list is waited for inside the call that submits it, so it may wait only for what is resolved.
  // For a device that wraps this one and decides itself when something runs.
  bool immediate = false;
  // The Khronos validation layers; see VulkanInstance.
  bool layers = false;
  Bytes memory{};  // zero: the device's
  // How long dropping the device lets lists in flight finish.
  sync::Duration close_bound = std::chrono::seconds(10);
};

// The handles of an open device, for users of `native` commands and of other libraries. Valid while
// the device is open.
struct VulkanHandles {
  void* instance = nullptr;                // VkInstance
  void* physical_device = nullptr;         // VkPhysicalDevice
  void* device = nullptr;                  // VkDevice
  void* get_instance_proc_addr = nullptr;  // PFN_vkGetInstanceProcAddr
};

// A GPU (or lavapipe) through Vulkan 1.2 with timeline semaphores and synchronization2. It runs
// SpirvModule kernels.
//
// - Each Queue has a timeline semaphore. A list whose waits are resolved, or are on lists that the
//   driver has, goes to the driver inside submit(); one that waits for the host is kept back, with
//   all behind it, and handed over by a thread that exists from the first such list on.
// - Whether a list fails is known when it is handed over: GPU code cannot fail, except with the
//   whole device.
// - A Program's commands are recorded once for each set of bindings and parameters that is in use.
// - Mapped memory may be used until the device is closed.
// - Compiled pipelines are kept in the cache folder, by device and driver.
class VulkanDevice final : public GpuDevice {
 public:
  // A failure says what is missing here, and lists the devices there are.
  static Result<Ref<VulkanDevice>> open(const VulkanOptions& options = {});
  ~VulkanDevice() override;

  Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) override;
  // Whole pages only; anything else is refused.
  Result<Ref<Buffer>> import_buffer(ExternalMemory memory) override;
  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;

  // Null where the hardware has no timestamps.
  KernelProfile* profile() const override;

  VulkanHandles handles() const noexcept;

 private:
  VulkanDevice(DeviceInfo info, const VulkanOptions& options, std::shared_ptr<VulkanCore> core);
  std::shared_ptr<VulkanCore> core_;
};

// "vulkan:0", ...; those that cannot be used say why, and one line says why there are none.
std::vector<DeviceListing> list_vulkan_devices();

}  // namespace holdfast::hal
