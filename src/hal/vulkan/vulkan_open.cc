#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "holdfast/hal/vulkan/vulkan_core.h"
#include "holdfast/hal/vulkan/vulkan_memory_types.h"

// How a VulkanCore comes to be: what the physical device offers, and what of it is taken.

namespace holdfast::hal {
namespace {

// Memory objects that are not for buffers: spilled parameters, imports.
constexpr uint32_t kReservedBuffers = 256;

// Every feature structure that is asked about, chained.
struct Features {
  VkPhysicalDeviceFeatures2 base{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceSynchronization2Features sync2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES};
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT};

  void chain(bool with_atomics) {
    base.pNext = &v11;
    v11.pNext = &v12;
    v12.pNext = &sync2;
    sync2.pNext = with_atomics ? &atomics : nullptr;
    atomics.pNext = nullptr;
  }
};

std::vector<std::string> extensions_of(VkPhysicalDevice physical) {
  uint32_t count = 0;
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> properties(count);
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, properties.data());
  std::vector<std::string> names;
  for (const VkExtensionProperties& p : properties) names.emplace_back(p.extensionName);
  return names;
}

// What is used of what there is: everything else stays off.
Features wanted(const Features& has, bool with_atomics) {
  Features on;
  on.chain(with_atomics);
  on.base.features.shaderInt64 = has.base.features.shaderInt64;
  on.base.features.shaderInt16 = has.base.features.shaderInt16;
  on.base.features.shaderFloat64 = has.base.features.shaderFloat64;
  on.v11.storageBuffer16BitAccess = has.v11.storageBuffer16BitAccess;
  on.v11.uniformAndStorageBuffer16BitAccess = has.v11.uniformAndStorageBuffer16BitAccess;
  on.v11.storagePushConstant16 = has.v11.storagePushConstant16;
  on.v11.variablePointersStorageBuffer = has.v11.variablePointersStorageBuffer;
  on.v11.variablePointers = has.v11.variablePointers;
  on.v12.storageBuffer8BitAccess = has.v12.storageBuffer8BitAccess;
  on.v12.uniformAndStorageBuffer8BitAccess = has.v12.uniformAndStorageBuffer8BitAccess;
  on.v12.storagePushConstant8 = has.v12.storagePushConstant8;
  on.v12.shaderBufferInt64Atomics = has.v12.shaderBufferInt64Atomics;
  on.v12.shaderFloat16 = has.v12.shaderFloat16;
  on.v12.shaderInt8 = has.v12.shaderInt8;
  on.v12.scalarBlockLayout = has.v12.scalarBlockLayout;
  on.v12.shaderSubgroupExtendedTypes = has.v12.shaderSubgroupExtendedTypes;
  on.v12.timelineSemaphore = VK_TRUE;
  on.v12.bufferDeviceAddress = has.v12.bufferDeviceAddress;
  on.v12.vulkanMemoryModel = has.v12.vulkanMemoryModel;
  on.v12.vulkanMemoryModelDeviceScope = has.v12.vulkanMemoryModelDeviceScope;
  on.sync2.synchronization2 = VK_TRUE;
  on.atomics.shaderBufferFloat32Atomics = has.atomics.shaderBufferFloat32Atomics;
  on.atomics.shaderBufferFloat32AtomicAdd = has.atomics.shaderBufferFloat32AtomicAdd;
  on.atomics.shaderSharedFloat32Atomics = has.atomics.shaderSharedFloat32Atomics;
  on.atomics.shaderSharedFloat32AtomicAdd = has.atomics.shaderSharedFloat32AtomicAdd;
  return on;
}

VulkanFeatures for_kernels(const Features& on, const VkPhysicalDeviceLimits& limits,
                           const VkPhysicalDeviceSubgroupProperties& subgroup) {
  VulkanFeatures f;
  f.storage_8bit = on.v12.storageBuffer8BitAccess != 0;
  f.storage_16bit = on.v11.storageBuffer16BitAccess != 0;
  f.uniform_and_storage_8bit = on.v12.uniformAndStorageBuffer8BitAccess != 0;
  f.uniform_and_storage_16bit = on.v11.uniformAndStorageBuffer16BitAccess != 0;
  f.push_constant_8bit = on.v12.storagePushConstant8 != 0;
  f.push_constant_16bit = on.v11.storagePushConstant16 != 0;
  f.float16 = on.v12.shaderFloat16 != 0;
  f.int8 = on.v12.shaderInt8 != 0;
  f.int16 = on.base.features.shaderInt16 != 0;
  f.int64 = on.base.features.shaderInt64 != 0;
  f.float64 = on.base.features.shaderFloat64 != 0;
  f.int64_atomics = on.v12.shaderBufferInt64Atomics != 0;
  f.float_atomic_add =
      on.atomics.shaderBufferFloat32AtomicAdd != 0 && on.atomics.shaderSharedFloat32AtomicAdd != 0;
  f.buffer_addresses = on.v12.bufferDeviceAddress != 0;
  f.scalar_layout = on.v12.scalarBlockLayout != 0;
  f.vulkan_memory_model = on.v12.vulkanMemoryModel != 0;
  f.memory_model_device_scope = on.v12.vulkanMemoryModelDeviceScope != 0;
  f.variable_pointers_storage = on.v11.variablePointersStorageBuffer != 0;
  f.variable_pointers = on.v11.variablePointers != 0;
  if ((subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    f.subgroup = subgroup.supportedOperations;
  }
  std::copy(std::begin(limits.maxComputeWorkGroupSize), std::end(limits.maxComputeWorkGroupSize),
            f.max_group_size.begin());
  f.max_group_threads = limits.maxComputeWorkGroupInvocations;
  f.max_shared_bytes = limits.maxComputeSharedMemorySize;
  return f;
}

// Vulkan does not say which threads a subgroup has; NVIDIA's documents do.
bool has_simdgroups(const VulkanFeatures& features, const VkPhysicalDeviceProperties& properties,
                    const VkPhysicalDeviceSubgroupProperties& subgroup) {
  constexpr uint32_t kNvidia = 0x10de;
  constexpr VkSubgroupFeatureFlags kNeeds = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                            VK_SUBGROUP_FEATURE_BALLOT_BIT |
                                            VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  return properties.vendorID == kNvidia && subgroup.subgroupSize == 32 &&
         (features.subgroup & kNeeds) == kNeeds;
}

// Families that compute and do nothing else first: their queues disturb nobody.
std::vector<uint32_t> compute_families(const std::vector<VkQueueFamilyProperties>& all) {
  std::vector<uint32_t> found;
  for (const bool graphics : {false, true}) {
    for (uint32_t i = 0; i < all.size(); ++i) {
      if ((all[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
      if (((all[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0) == graphics) found.push_back(i);
    }
  }
  return found;
}

// A family that copies and does nothing else: the hardware's copy engines.
std::optional<uint32_t> transfer_family(const std::vector<VkQueueFamilyProperties>& all) {
  for (uint32_t i = 0; i < all.size(); ++i) {
    constexpr VkQueueFlags kAlone = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT;
    if ((all[i].queueFlags & VK_QUEUE_TRANSFER_BIT) != 0 && (all[i].queueFlags & ~kAlone) == 0) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Failure VulkanCore::choose_memory(const VulkanOptions& options) {
  // Which types buffers may have: asked of one like all others.
  VkBufferCreateInfo like{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  like.size = 256;
  like.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (features.buffer_addresses) like.usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  VkBuffer probe = VK_NULL_HANDLE;
  if (Failure failure = check(vk.vkCreateBuffer(device, &like, nullptr, &probe), "no buffer")) {
    return failure;
  }
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device, probe, &needs);
  vk.vkDestroyBuffer(device, probe, nullptr);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((needs.memoryTypeBits >> i & 1) == 0) memory.memoryTypes[i].propertyFlags = 0;
  }
  const auto refuse = [&](std::string_view why) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("device '{}' ({}): {}", name, description, why));
  };
  const auto [shared, local, upload, readback] = choose_memory_types(memory);
  if (!local || !upload || !readback) return refuse("it lacks a memory type that every device has");
  device_memory_host_visible = options.device_memory_host_visible.value_or(shared.has_value());
  if (device_memory_host_visible && !shared) {
    return refuse("its memory cannot be made visible to the host");
  }
  memory_types = {device_memory_host_visible ? *shared : *local, *upload, *readback};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    heap_sizes[kind] =
        Bytes{memory.memoryHeaps[memory.memoryTypes[memory_types[kind]].heapIndex].size};
  }
  max_buffer = std::min(max_buffer, heap_sizes[0]);
  memory_limit = options.memory ? std::min(options.memory, heap_sizes[0]) : heap_sizes[0];
  // The driver counts both kinds together; apart, neither can leave the other without.
  const uint32_t count = limits.maxMemoryAllocationCount -
                         std::min(limits.maxMemoryAllocationCount / 2, kReservedBuffers);
  max_imports = count / 2;
  max_buffers = count - max_imports;
  return {};
}

Result<std::shared_ptr<VulkanCore>> VulkanCore::open(const VulkanOptions& options) {
  Result<std::shared_ptr<const VulkanInstance>> instance = VulkanInstance::get(options.layers);
  if (!instance) return instance.failure();
  Result<const VulkanCandidate*> chosen = instance.value()->choose(options.device);
  if (!chosen) return chosen.failure();

  std::shared_ptr<VulkanCore> core(new VulkanCore);
  core->instance = instance.value();
  core->physical = chosen.value()->handle;
  core->name = fmt::format("vulkan:{}", chosen.value() - core->instance->candidates().data());
  core->description = chosen.value()->description;
  const std::vector<std::string> available = extensions_of(core->physical);
  const auto has = [&](std::string_view extension) {
    return std::find(available.begin(), available.end(), extension) != available.end();
  };
  VkPhysicalDevicePushDescriptorPropertiesKHR push{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceMaintenance3Properties sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties controls{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &sizes;
  sizes.pNext = &subgroup;
  subgroup.pNext = &controls;
  const bool has_push = has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  const bool has_host = has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  controls.pNext = &driver;
  void** tail = &driver.pNext;
  if (has_push) {
    *tail = &push;
    tail = &push.pNext;
  }
  if (has_host) {
    *tail = &host;
    tail = &host.pNext;
  }
  VkPhysicalDeviceMaintenance4Properties newer{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
  VkPhysicalDeviceProperties plain;
  vkGetPhysicalDeviceProperties(core->physical, &plain);
  const bool core13 = std::min(plain.apiVersion, volkGetInstanceVersion()) >= VK_API_VERSION_1_3;
  if (core13) *tail = &newer;
  vkGetPhysicalDeviceProperties2(core->physical, &properties);
  core->limits = properties.properties.limits;

  const bool has_atomics = has(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  Features there;
  there.chain(has_atomics);
  vkGetPhysicalDeviceFeatures2(core->physical, &there.base);
  Features on = wanted(there, has_atomics);
  core->features = for_kernels(on, core->limits, subgroup);
  core->features.keeps_nan_16 = controls.shaderSignedZeroInfNanPreserveFloat16 != 0;
  core->features.keeps_nan_32 = controls.shaderSignedZeroInfNanPreserveFloat32 != 0;
  core->features.keeps_nan_64 = controls.shaderSignedZeroInfNanPreserveFloat64 != 0;
  core->features.keeps_small_32 =
      controls.shaderDenormPreserveFloat32 != 0 &&
      controls.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  core->features.rounds_to_nearest = controls.shaderRoundingModeRTEFloat16 != 0 &&
                                     controls.shaderRoundingModeRTEFloat32 != 0 &&
                                     controls.shaderRoundingModeRTEFloat64 != 0;
  core->features.is_lavapipe = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;

  core->features.simdgroups = has_simdgroups(core->features, plain, subgroup);

  uint32_t family_count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(core->physical, &family_count, nullptr);
  std::vector<VkQueueFamilyProperties> families(family_count);
  vkGetPhysicalDeviceQueueFamilyProperties(core->physical, &family_count, families.data());
  uint32_t wanted_queues = options.queues;
  uint32_t taken_queues = 0;
  std::vector<VkDeviceQueueCreateInfo> queue_infos;
  std::vector<std::vector<float>> priorities;
  for (const uint32_t family : compute_families(families)) {
    // Every queue costs tens of milliseconds to open (docs/devices.md), so by default one family's.
    if (options.queues == 0 && wanted_queues == 0) wanted_queues = families[family].queueCount;
    const uint32_t count = std::min(families[family].queueCount, wanted_queues - taken_queues);
    taken_queues += count;
    if (count == 0) break;
    core->families.push_back(family);
    priorities.emplace_back(count, 0.5F);
    VkDeviceQueueCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    info.queueFamilyIndex = family;
    info.queueCount = count;
    info.pQueuePriorities = priorities.back().data();
    queue_infos.push_back(info);
  }
  const std::optional<uint32_t> copy_family = transfer_family(families);
  const uint32_t copy_count =
      copy_family ? std::min(options.copy_queues.value_or(1), families[*copy_family].queueCount)
                  : 0;
  if (copy_count > 0) {
    core->families.push_back(*copy_family);
    priorities.emplace_back(copy_count, 0.5F);
    VkDeviceQueueCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    info.queueFamilyIndex = *copy_family;
    info.queueCount = copy_count;
    info.pQueuePriorities = priorities.back().data();
    queue_infos.push_back(info);
  }

  std::vector<const char*> extensions;
  if (!core13) extensions.push_back(VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);
  // One for each binding, and one for parameters.
  core->has_push_descriptors =
      has_push && options.push_descriptors && push.maxPushDescriptors > kMaxBindings;
  if (core->has_push_descriptors) extensions.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  core->can_import_host_memory = has_host;
  core->import_alignment = host.minImportedHostPointerAlignment;
  if (has_host) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (has_atomics) extensions.push_back(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  // A device that has it must be opened with it; its name is in a header that is still beta.
  constexpr const char* kPortability = "VK_KHR_portability_subset";
  if (has(kPortability)) extensions.push_back(kPortability);

  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &on.base;
  info.queueCreateInfoCount = static_cast<uint32_t>(queue_infos.size());
  info.pQueueCreateInfos = queue_infos.data();
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  {
    const sync::NoFork whole;  // a driver may load libraries here
    if (Failure failure = failure_of(
            vkCreateDevice(core->physical, &info, nullptr, &core->device),
            fmt::format("device '{}' ({}) cannot be opened", core->name, core->description))) {
      return failure;
    }
  }
  volkLoadDeviceTable(&core->vk, core->device);
  core->queue_submit = core13 ? core->vk.vkQueueSubmit2 : core->vk.vkQueueSubmit2KHR;
  core->cmd_barrier = core13 ? core->vk.vkCmdPipelineBarrier2 : core->vk.vkCmdPipelineBarrier2KHR;
  for (const VkDeviceQueueCreateInfo& family : queue_infos) {
    for (uint32_t i = 0; i < family.queueCount; ++i) {
      auto queue = std::make_unique<VulkanNativeQueue>();
      queue->family = family.queueFamilyIndex;
      // Counters of fewer bits begin anew within minutes.
      queue->has_timestamps = families[queue->family].timestampValidBits == 64;
      queue->computes = copy_count == 0 || queue->family != *copy_family;
      core->vk.vkGetDeviceQueue(core->device, queue->family, i, &queue->handle);
      (queue->computes ? core->queues : core->copy_queues).push_back(std::move(queue));
    }
  }
  core->max_buffer = Bytes{core13 ? std::min(sizes.maxMemoryAllocationSize, newer.maxBufferSize)
                                  : sizes.maxMemoryAllocationSize};
  if (Failure failure = core->choose_memory(options)) return failure;
  if (Failure failure = core->make_byte_table()) return failure;
  core->load_pipeline_cache();
  return core;
}

}  // namespace holdfast::hal
