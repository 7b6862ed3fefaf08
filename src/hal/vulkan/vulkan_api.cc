#define VOLK_IMPLEMENTATION
#include "holdfast/hal/vulkan/vulkan_api.h"

#include <fmt/format.h>

namespace holdfast::hal {

const char* to_string(VkResult result) {
  switch (result) {
#define HOLDFAST_NAME(name) \
  case name: return #name
    HOLDFAST_NAME(VK_SUCCESS);
    HOLDFAST_NAME(VK_NOT_READY);
    HOLDFAST_NAME(VK_TIMEOUT);
    HOLDFAST_NAME(VK_EVENT_SET);
    HOLDFAST_NAME(VK_EVENT_RESET);
    HOLDFAST_NAME(VK_INCOMPLETE);
    HOLDFAST_NAME(VK_PIPELINE_COMPILE_REQUIRED);
    HOLDFAST_NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
    HOLDFAST_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    HOLDFAST_NAME(VK_ERROR_INITIALIZATION_FAILED);
    HOLDFAST_NAME(VK_ERROR_DEVICE_LOST);
    HOLDFAST_NAME(VK_ERROR_MEMORY_MAP_FAILED);
    HOLDFAST_NAME(VK_ERROR_LAYER_NOT_PRESENT);
    HOLDFAST_NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
    HOLDFAST_NAME(VK_ERROR_FEATURE_NOT_PRESENT);
    HOLDFAST_NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
    HOLDFAST_NAME(VK_ERROR_TOO_MANY_OBJECTS);
    HOLDFAST_NAME(VK_ERROR_FORMAT_NOT_SUPPORTED);
    HOLDFAST_NAME(VK_ERROR_FRAGMENTED_POOL);
    HOLDFAST_NAME(VK_ERROR_UNKNOWN);
    HOLDFAST_NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
    HOLDFAST_NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
    HOLDFAST_NAME(VK_ERROR_FRAGMENTATION);
    HOLDFAST_NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS);
    HOLDFAST_NAME(VK_ERROR_VALIDATION_FAILED_EXT);
    HOLDFAST_NAME(VK_ERROR_INVALID_SHADER_NV);
#undef HOLDFAST_NAME
    default: return "an unknown VkResult";
  }
}

Failure failure_of(VkResult result, std::string_view what) {
  switch (result) {
    case VK_SUCCESS: return {};
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return {ErrorCode::out_of_memory,
              fmt::format("{} failed: the Vulkan driver has no memory left for it ({}); drop "
                          "arrays or buffers that are no longer needed",
                          what, to_string(result))};
    case VK_ERROR_DEVICE_LOST:
      return {ErrorCode::device_lost,
              fmt::format("{} failed: the Vulkan driver lost the device ({}); open it anew, and "
                          "look into the system's log for the driver's reason",
                          what, to_string(result))};
    default:
      return {ErrorCode::environment,
              fmt::format("{} failed: the Vulkan driver answered {} ({})", what, to_string(result),
                          static_cast<int>(result))};
  }
}

}  // namespace holdfast::hal
