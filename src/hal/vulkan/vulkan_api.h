#pragma once

// Vulkan's own declarations, loaded at run time: nothing links libvulkan. Included by sources of
// this folder only.
#define VK_NO_PROTOTYPES
#include <volk.h>

#include <string_view>

#include "holdfast/base/error.h"

// A Vulkan structure begins with its type, and what is not set is zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace holdfast::hal {

// "VK_ERROR_DEVICE_LOST".
const char* to_string(VkResult result);
// None for VK_SUCCESS; else out_of_memory, device_lost or environment, with what was tried.
Failure failure_of(VkResult result, std::string_view what);

}  // namespace holdfast::hal
