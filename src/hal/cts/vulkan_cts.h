#pragma once

#include <string_view>
#include <vector>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::hal::cts {

// A kernel of kernels/*.comp. A kernel may declare no more push constants than it is given, so the
// array of one that takes any number of parameters (store_params and its like) is made that long.
SpirvModule spirv_of(std::string_view kernel, Bytes parameter_bytes = {});

// Those of the registered devices that are Vulkan's, whatever wraps them.
std::vector<DeviceUnderTest> vulkan_devices();

// Tests that only Vulkan devices can pass.
class CtsVulkan : public Cts {
 protected:
  VulkanDevice& vulkan() { return *testing::find_vulkan(device()); }
  // Whether kernels may be given addresses.
  bool has_addresses();
  // A kernel of cts/kernels that takes its bindings by address.
  Ref<Pipeline> address_pipeline(std::string_view kernel, uint32_t bindings, Bytes parameters);

  template <typename Function>
  Function function(const char* name) {
    return testing::vulkan_function<Function>(vulkan(), name);
  }
};

}  // namespace holdfast::hal::cts
