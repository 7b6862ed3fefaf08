#pragma once

#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/device.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/hal/vulkan/vulkan_instance.h"

// What tests on Vulkan devices share. Linking it makes every message of the validation layers a
// failure of the test that runs, or of the program where none does.

namespace holdfast::testing {

// Why Vulkan cannot be tested here; empty: it can. Where HOLDFAST_REQUIRE_VULKAN=1 it always can:
// a test then fails to open its device, and says so.
std::string why_no_vulkan();
// The same for the validation layers.
std::string why_no_vulkan_layers();

// Loads the loader and the driver, which then stay until the tests are over: loading them takes
// longer than most tests. To be called before a simulation, whose first schedule would have other
// steps than the rest.
Failure load_vulkan(bool layers = false);

// The tests' door to VulkanDevice::open: queues limited by HOLDFAST_TEST_QUEUES and, with
// HOLDFAST_TEST_DISCRETE=1, memory that the host cannot reach. The loader and the driver stay
// loaded until the tests are over, since loading them takes longer than most tests.
Result<Ref<hal::VulkanDevice>> open_vulkan(hal::VulkanOptions options);

// How many queues a device has that is asked for all; at least `least`.
uint32_t all_vulkan_queues(uint32_t least);

// The device behind all wrappers; null where it is none of Vulkan.
hal::VulkanDevice* find_vulkan(hal::Device& device);

// Takes what the layers have said so far: it fails no test then.
std::vector<hal::VulkanMessage> take_vulkan_messages();

// A function of the VkDevice, for native callbacks.
template <typename Function>
Function vulkan_function(const hal::VulkanDevice& device, const char* name) {
  const hal::VulkanHandles handles = device.handles();
  const auto instance_function =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(handles.get_instance_proc_addr);
  const auto device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(
      instance_function(static_cast<VkInstance>(handles.instance), "vkGetDeviceProcAddr"));
  return reinterpret_cast<Function>(device_function(static_cast<VkDevice>(handles.device), name));
}

}  // namespace holdfast::testing
