#include <gtest/gtest.h>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cts/gpu.h"
#include "holdfast/hal/cts/vulkan_cts.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::hal::cts {
namespace {

using holdfast::testing::all_vulkan_queues;
using holdfast::testing::open_vulkan;
using holdfast::testing::why_no_vulkan;

Module spirv(std::string_view kernel, Bytes parameter_bytes) {
  const bool spills = kernel == "store_params" && parameter_bytes > SpirvModule::kMaxPushBytes;
  return spirv_of(spills ? "store_params_buffer" : kernel, parameter_bytes);
}

bool add(std::string name, const VulkanOptions& options, GpuWrapper wrap = plain_gpu,
         const std::set<std::string>& unsupported = unsupported_by_gpus()) {
  return register_device({std::move(name),
                          [options, wrap]() -> Result<Ref<Device>> {
                            VulkanOptions own = options;
                            // Where the hardware has fewer, ours share them.
                            own.queues = all_vulkan_queues(kGpuQueues);
                            // The suite means queues that take everything.
                            own.copy_queues = 0;
                            own.close_bound = kGpuCloseBound;
                            auto opened = open_vulkan(own);
                            if (!opened) return opened.failure();
                            return wrap(opened.value());
                          },
                          spirv, unsupported, why_no_vulkan});
}

VulkanOptions discrete_vulkan() {
  VulkanOptions options;
  options.device_memory_host_visible = false;
  return options;
}

VulkanOptions without_push_descriptors() {
  VulkanOptions options;
  options.push_descriptors = false;
  return options;
}

VulkanOptions immediate() {
  VulkanOptions options;
  options.immediate = true;
  return options;
}

const bool kVulkanRegistered =
    add("vulkan", {}) && add("vulkan_discrete", discrete_vulkan()) &&
    add("vulkan_without_push_descriptors", without_push_descriptors()) &&
    add("validate_vulkan", {}, validated_gpu) &&
    add("validate_vulkan_discrete", discrete_vulkan(), validated_gpu) &&
    add("validate_adversary_vulkan", immediate(), hostile_gpu, unsupported_by_hostile_gpus());

}  // namespace
}  // namespace holdfast::hal::cts
