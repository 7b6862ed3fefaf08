#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/hal/vulkan/vulkan_api.h"

namespace holdfast::hal {

// The memory types, by index, that serve each purpose best; none where no type can.
struct VulkanMemoryTypes {
  std::optional<uint32_t> shared;  // the device's own, and the host's as if it were the host's own
  std::optional<uint32_t> local;   // the device's own
  std::optional<uint32_t> upload;  // written by the host
  std::optional<uint32_t> readback;  // read by the host
};

VulkanMemoryTypes choose_memory_types(const VkPhysicalDeviceMemoryProperties& memory);

}  // namespace holdfast::hal
