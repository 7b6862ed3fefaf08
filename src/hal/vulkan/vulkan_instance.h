#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/vulkan/vulkan_api.h"

namespace holdfast::hal {

// A message of the Khronos validation layers.
struct VulkanMessage {
  std::string id;    // "SYNC-HAZARD-READ_AFTER_WRITE"
  std::string text;  // whole
};
// Who hears the messages of all instances; by default they go to the log as warnings. Called on the
// thread that made the offending call, so it must not call Vulkan. Returns the one before.
std::function<void(const VulkanMessage&)> set_vulkan_message_handler(
    std::function<void(const VulkanMessage&)> handler);

// A physical device as it was found.
struct VulkanCandidate {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;         // "NVIDIA H200"
  std::string description;  // for people: name, driver, Vulkan version, kind
  std::string skipped;      // why it cannot be used; empty: it can
  bool is_gpu = false;      // and no software that stands in for one
};

// The loader, one VkInstance and the physical devices it sees. Devices that are open at the same
// time share one; it goes with the last of them. Thread-safe.
class VulkanInstance {
 public:
  // `layers`: with the validation layers, core and synchronization checks on;
  // HOLDFAST_VULKAN_LAYERS=1 asks for the same. A failure says what is missing: the loader, a
  // driver, the layers. In a child forked after the first call it is refused: drivers do not
  // survive a fork.
  static Result<std::shared_ptr<const VulkanInstance>> get(bool layers);
  ~VulkanInstance();
  VulkanInstance(const VulkanInstance&) = delete;
  VulkanInstance& operator=(const VulkanInstance&) = delete;

  VkInstance handle() const noexcept { return handle_; }
  bool has_layers() const noexcept { return layers_; }
  // Usable ones first, discrete GPUs before integrated, virtual and CPU ones, else in the driver's
  // order; then those skipped. "vulkan:N" counts in this order.
  std::span<const VulkanCandidate> candidates() const noexcept { return candidates_; }
  // By index ("0"), by a part of the name in any case ("h200"), or the first usable one (""). A
  // failure lists what there is and why the others were skipped.
  Result<const VulkanCandidate*> choose(std::string_view selector) const;

 private:
  VulkanInstance() = default;
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool layers_ = false;
  uint32_t fork_generation_ = sync::fork_generation();
  std::vector<VulkanCandidate> candidates_;
};

}  // namespace holdfast::hal
