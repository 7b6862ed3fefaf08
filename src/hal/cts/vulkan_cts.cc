#include "holdfast/hal/cts/vulkan_cts.h"

#include <embedded/cts_spirv.h>

namespace holdfast::hal::cts {
SpirvModule spirv_of(std::string_view kernel, Bytes parameter_bytes) {
  const std::span<const uint32_t> words = embedded::cts_spirv(kernel);
  SpirvModule module{{words.begin(), words.end()}};
  // A block of push constants has no length of its own at run time.
  if (kernel == "store_params" || kernel == "store_params_addresses") {
    module.constants.push_back({1, (parameter_bytes.value + 3) / 4});
  }
  return module;
}

std::vector<DeviceUnderTest> vulkan_devices() {
  std::vector<DeviceUnderTest> found;
  for (const DeviceUnderTest& device : registered_devices()) {
    if (device.name.find("vulkan") != std::string::npos) found.push_back(device);
  }
  return found;
}

bool CtsVulkan::has_addresses() {
  // Whether a callback is told of one says it.
  const auto data = words(1, "data");
  uint64_t address = 0;
  auto work = list();
  const std::vector bindings{Binding::of(data, Access::write)};
  work.native([&](const NativeCall& call) { address = call.native_bindings[0].address; }, bindings);
  EXPECT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  return address != 0;
}

Ref<Pipeline> CtsVulkan::address_pipeline(std::string_view kernel, uint32_t bindings,
                                          Bytes parameters) {
  SpirvModule module = spirv_of(kernel);
  module.bindings = SpirvBindings::addresses;
  return device()
      .create_pipeline({std::string(kernel), std::move(module), bindings, parameters})
      .or_raise();
}

}  // namespace holdfast::hal::cts
