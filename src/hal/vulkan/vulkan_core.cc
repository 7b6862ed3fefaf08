#include "holdfast/hal/vulkan/vulkan_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "holdfast/base/checked_file.h"
#include "holdfast/base/log.h"

namespace holdfast::hal {
namespace {

VkBufferUsageFlags usage_of(const VulkanCore& core) {
  VkBufferUsageFlags usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                             VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (core.features.buffer_addresses) usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  return usage;
}

VkBufferCreateInfo buffer_info(const VulkanCore& core, VkDeviceSize size, const void* chain) {
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.pNext = chain;
  info.size = size;
  info.usage = usage_of(core);
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  if (core.families.size() > 1) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = static_cast<uint32_t>(core.families.size());
    info.pQueueFamilyIndices = core.families.data();
  }
  return info;
}

}  // namespace

VulkanObject::VulkanObject(const std::shared_ptr<VulkanCore>& core)
    : GpuObject(core), core_(core) {}

VulkanObject::~VulkanObject() = default;

VulkanCore::~VulkanCore() { close(); }

void VulkanCore::begin_closing() noexcept {
  // Nothing runs; but a driver's own thread may have signalled a semaphore and not let go of it.
  if (device != VK_NULL_HANDLE) (void)vk.vkDeviceWaitIdle(device);
}

void VulkanCore::finish_closing() noexcept {
  if (device != VK_NULL_HANDLE) {
    profiler.destroy(*this);
    for (const auto& progress : semaphores_) {
      vk.vkDestroySemaphore(device, progress->semaphore, nullptr);
    }
    free(byte_table_);
    layouts_mutex_.assert_held();  // nobody else is left
    for (const VulkanLayout& layout : layouts_) {
      vk.vkDestroyPipelineLayout(device, layout.pipeline, nullptr);
      vk.vkDestroyDescriptorSetLayout(device, layout.set, nullptr);
    }
    try {
      save_pipeline_cache();
    } catch (...) {  // they are compiled again
    }
    vk.vkDestroyPipelineCache(device, pipeline_cache, nullptr);
    vk.vkDestroyDevice(device, nullptr);
  }
  instance.reset();
}

Failure VulkanCore::check(VkResult result, std::string_view what) const {
  if (result >= 0) return {};
  Failure failure = failure_of(result, fmt::format("device '{}': {}", name, what));
  if (result != VK_ERROR_DEVICE_LOST) return failure;
  return lose(failure);
}

std::optional<uint64_t> VulkanCore::read(const GpuProgress& progress) const noexcept {
  const auto& ours = static_cast<const VulkanProgress&>(progress);
  uint64_t now = 0;
  const VkResult result = vk.vkGetSemaphoreCounterValue(device, ours.semaphore, &now);
  if (result == VK_SUCCESS) return now;
  try {
    (void)check(result, "its progress cannot be asked");
  } catch (...) {  // no memory for the words: asked again
  }
  return std::nullopt;
}

bool VulkanCore::sleep(const GpuProgress& progress, uint64_t value, sync::Duration timeout) const {
  const Use use(*this);
  if (!use) return true;
  const auto& ours = static_cast<const VulkanProgress&>(progress);
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &ours.semaphore;
  info.pValues = &value;
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 0));
  const VkResult result = vk.vkWaitSemaphores(device, &info, ns);
  if (result < 0) (void)check(result, "it cannot be waited for");
  return result >= 0;
}

Result<VulkanProgress*> VulkanCore::make_progress(const std::string& label) {
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  semaphores_.push_back(std::make_unique<VulkanProgress>());
  VulkanProgress& made = *semaphores_.back();
  if (Failure failure = check(vk.vkCreateSemaphore(device, &info, nullptr, &made.semaphore),
                              "no semaphore for a queue")) {
    return failure;
  }
  name_object(VK_OBJECT_TYPE_SEMAPHORE, reinterpret_cast<uint64_t>(made.semaphore), label);
  add_progress(made);
  return &made;
}

Result<VulkanLayout> VulkanCore::layout(uint32_t descriptors) {
  const sync::LeafLock lock(layouts_mutex_);
  VulkanLayout& made = layouts_[descriptors];
  if (made.pipeline != VK_NULL_HANDLE) return made;
  VulkanLayout fresh;
  if (descriptors > 0) {
    std::vector<VkDescriptorSetLayoutBinding> bindings(descriptors);
    for (uint32_t i = 0; i < descriptors; ++i) {
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    }
    VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    if (has_push_descriptors) {
      info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
    }
    info.bindingCount = descriptors;
    info.pBindings = bindings.data();
    if (Failure failure = check(vk.vkCreateDescriptorSetLayout(device, &info, nullptr, &fresh.set),
                                "no descriptor set layout")) {
      return failure;
    }
  }
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 static_cast<uint32_t>(SpirvModule::kMaxPushBytes.value)};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.setLayoutCount = descriptors > 0 ? 1 : 0;
  info.pSetLayouts = &fresh.set;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  if (Failure failure = check(vk.vkCreatePipelineLayout(device, &info, nullptr, &fresh.pipeline),
                              "no pipeline layout")) {
    vk.vkDestroyDescriptorSetLayout(device, fresh.set, nullptr);
    return failure;
  }
  made = fresh;
  return made;
}

Result<VulkanCore::Memory> VulkanCore::bind(VkBuffer buffer, const void* chain, VkDeviceSize size,
                                            uint32_t type, std::string_view what) const {
  Memory memory;
  memory.buffer = buffer;
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.pNext = chain;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.pNext = features.buffer_addresses ? &flags : chain;
  info.allocationSize = size;
  info.memoryTypeIndex = type;
  Failure failure;
  if (memory_objects_.fetch_add(1) >= limits.maxMemoryAllocationCount) {
    failure = Failure(ErrorCode::out_of_memory,
                      fmt::format("{}: the device has {} memory objects, its limit", what,
                                  limits.maxMemoryAllocationCount));
  } else {
    failure = check(vk.vkAllocateMemory(device, &info, nullptr, &memory.memory), what);
  }
  if (failure) memory_objects_.fetch_sub(1);
  if (!failure) {
    failure = check(vk.vkBindBufferMemory(device, memory.buffer, memory.memory, 0), what);
  }
  if (failure) {
    free(memory);
    return failure;
  }
  if (features.buffer_addresses) {
    VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    address.buffer = memory.buffer;
    memory.address = vk.vkGetBufferDeviceAddress(device, &address);
  }
  return memory;
}

Result<VulkanCore::Memory> VulkanCore::allocate(Bytes size, MemoryKind kind, bool map,
                                                std::string_view what) const {
  const VkBufferCreateInfo info = buffer_info(*this, size.value, nullptr);
  VkBuffer buffer = VK_NULL_HANDLE;
  if (Failure failure = check(vk.vkCreateBuffer(device, &info, nullptr, &buffer), what)) {
    return failure;
  }
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device, buffer, &needs);
  Result<Memory> made =
      bind(buffer, nullptr, needs.size, memory_types[static_cast<size_t>(kind)], what);
  if (!made || !map) return made;
  void* mapped = nullptr;
  Memory& memory = made.value();
  if (Failure failure =
          check(vk.vkMapMemory(device, memory.memory, 0, VK_WHOLE_SIZE, 0, &mapped), what)) {
    free(memory);
    return failure;
  }
  memory.host = static_cast<std::byte*>(mapped);
  return made;
}

Result<VulkanCore::Memory> VulkanCore::import(void* data, Bytes size, std::string_view what) const {
  constexpr auto kHandle = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  if (!can_import_host_memory) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("{}: device '{}' cannot use host memory in place; copy it to the "
                               "device instead",
                               what, name));
  }
  if (reinterpret_cast<uintptr_t>(data) % import_alignment != 0 ||
      size.value % import_alignment != 0) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("{}: device '{}' uses host memory in place only where its address "
                               "and its size are multiples of {} bytes; align it or copy it to "
                               "the device instead",
                               what, name, import_alignment));
  }
  VkMemoryHostPointerPropertiesEXT pointer{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  if (Failure failure =
          check(vk.vkGetMemoryHostPointerPropertiesEXT(device, kHandle, data, &pointer), what)) {
    return failure;
  }
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = kHandle;
  const VkBufferCreateInfo info = buffer_info(*this, size.value, &external);
  VkBuffer buffer = VK_NULL_HANDLE;
  if (Failure failure = check(vk.vkCreateBuffer(device, &info, nullptr, &buffer), what)) {
    return failure;
  }
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(device, buffer, &needs);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  const uint32_t allowed =
      needs.size <= size.value ? needs.memoryTypeBits & pointer.memoryTypeBits : 0;
  for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
    constexpr VkMemoryPropertyFlags kCoherent =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if ((allowed >> type & 1) == 0) continue;
    if ((memory.memoryTypes[type].propertyFlags & kCoherent) != kCoherent) continue;
    VkImportMemoryHostPointerInfoEXT import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT};
    import.handleType = kHandle;
    import.pHostPointer = data;
    Result<Memory> made = bind(buffer, &import, size.value, type, what);
    if (made) made.value().host = static_cast<std::byte*>(data);
    return made;
  }
  vk.vkDestroyBuffer(device, buffer, nullptr);
  return Failure(ErrorCode::unsupported,
                 fmt::format("{}: device '{}' has no coherent way to use this host memory; copy it "
                             "to the device instead",
                             what, name));
}

void VulkanCore::free(const Memory& memory) const noexcept {
  vk.vkDestroyBuffer(device, memory.buffer, nullptr);
  vk.vkFreeMemory(device, memory.memory, nullptr);  // unmaps
  if (memory.memory != VK_NULL_HANDLE) memory_objects_.fetch_sub(1);
}

void VulkanCore::name_object(VkObjectType type, uint64_t handle, const std::string& label) const {
  if (!instance->has_layers() || label.empty() || vkSetDebugUtilsObjectNameEXT == nullptr) return;
  VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
  info.objectType = type;
  info.objectHandle = handle;
  info.pObjectName = label.c_str();
  vkSetDebugUtilsObjectNameEXT(device, &info);
}

Failure VulkanCore::make_byte_table() {
  Result<Memory> made =
      allocate(2048_B, MemoryKind::upload, true, "no memory for the table of byte values");
  if (!made) return made.failure();
  byte_table_ = made.value();
  for (int value = 0; value < 256; ++value) std::memset(byte_table_.host + value * 4, value, 4);
  return {};
}

void VulkanCore::load_pipeline_cache() {
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(physical, &properties);
  std::string uuid;
  for (const uint8_t byte : properties.pipelineCacheUUID) uuid += fmt::format("{:02x}", byte);
  pipeline_cache_key_ = fmt::format("vulkan {:x} {:x} {:x} {}", properties.vendorID,
                                    properties.deviceID, properties.driverVersion, uuid);
  std::vector<std::byte> content;
  if (const std::filesystem::path folder = cache_folder(); !folder.empty()) {
    pipeline_cache_file_ =
        folder / fmt::format("vulkan-{:x}-{:x}-{:x}-{}.pipelines", properties.vendorID,
                             properties.deviceID, properties.driverVersion, uuid);
    CheckedBytes read = read_checked_file(pipeline_cache_file_, pipeline_cache_key_);
    if (read.state == FileState::damaged) {
      logging::warn(logging::Topic::device,
                    "{}: the file of compiled pipelines, {}, is damaged; it will be replaced", name,
                    pipeline_cache_file_.string());
    }
    content = std::move(read.bytes);
  }
  pipeline_cache_loaded_ = content.size();
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = content.size();
  info.pInitialData = content.data();
  // Without one, pipelines are only made more slowly.
  if (vk.vkCreatePipelineCache(device, &info, nullptr, &pipeline_cache) != VK_SUCCESS) {
    pipeline_cache = VK_NULL_HANDLE;
  }
}

void VulkanCore::save_pipeline_cache() {
  if (pipeline_cache == VK_NULL_HANDLE || pipeline_cache_file_.empty()) return;
  size_t size = 0;
  if (vk.vkGetPipelineCacheData(device, pipeline_cache, &size, nullptr) != VK_SUCCESS) return;
  // A cache that did not grow has nothing new.
  if (size == pipeline_cache_loaded_) return;
  std::vector<std::byte> content(size);
  if (vk.vkGetPipelineCacheData(device, pipeline_cache, &size, content.data()) != VK_SUCCESS)
    return;
  content.resize(size);
  if (const Failure failure =
          write_checked_file(pipeline_cache_file_, pipeline_cache_key_, content)) {
    logging::note(logging::Topic::device, "{}: compiled pipelines are not kept: {}", name,
                  failure.message());
  }
}

}  // namespace holdfast::hal
