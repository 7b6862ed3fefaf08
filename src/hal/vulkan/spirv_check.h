#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "holdfast/base/error.h"
#include "holdfast/hal/pipeline.h"
#include "holdfast/hal/vulkan/vulkan_api.h"

namespace holdfast::hal {

// What kernels may use, where a device has it.
struct VulkanFeatures {
  bool storage_8bit = false;
  bool storage_16bit = false;
  bool uniform_and_storage_8bit = false;
  bool uniform_and_storage_16bit = false;
  bool push_constant_8bit = false;
  bool push_constant_16bit = false;
  bool float16 = false;
  bool int8 = false;
  bool int16 = false;
  bool int64 = false;
  bool float64 = false;
  bool int64_atomics = false;
  bool float_atomic_add = false;  // 32 bits, on buffers and shared memory
  bool buffer_addresses = false;
  bool scalar_layout = false;
  VkSubgroupFeatureFlags subgroup = 0;  // in compute
  // Subgroups have 32 threads in the order of their index in the group, shuffles and ballots.
  bool simdgroups = false;
  bool vulkan_memory_model = false;
  bool memory_model_device_scope = false;
  // Whether infinities, NaNs and signed zeros of floats of such widths can be kept.
  bool keeps_nan_16 = false;
  bool keeps_nan_32 = false;
  bool keeps_nan_64 = false;
  bool keeps_small_32 = false;     // floats too small to be normal
  bool rounds_to_nearest = false;  // of every width, if told to
  bool is_lavapipe = false;
  bool variable_pointers_storage = false;  // each into one buffer
  bool variable_pointers = false;          // also across buffers, and into shared memory
  std::array<uint32_t, 3> max_group_size{};
  uint32_t max_group_threads = 0;
  uint32_t max_shared_bytes = 0;
};

// Whether a module can be given to a driver: it is valid SPIR-V for Vulkan 1.2, has the entry point
// as a compute shader, needs only what the device has, and declares the bindings and parameters
// that `desc` promises (set 0; see SpirvModule). A failure names the kernel and what is wrong; no
// module, however broken, does worse. Costs about a millisecond.
Failure check_spirv(const PipelineDesc& desc, const VulkanFeatures& features);

}  // namespace holdfast::hal
