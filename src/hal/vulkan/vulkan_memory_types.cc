#include "holdfast/hal/vulkan/vulkan_memory_types.h"

namespace holdfast::hal {
namespace {

// The first type with all of `must`, preferring those with most of `like` and least of `avoid`.
std::optional<uint32_t> memory_type(const VkPhysicalDeviceMemoryProperties& memory,
                                    VkMemoryPropertyFlags must, VkMemoryPropertyFlags like,
                                    VkMemoryPropertyFlags avoid) {
  std::optional<uint32_t> best;
  int best_score = 0;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    constexpr VkMemoryPropertyFlags kNever = VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                             VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
                                             VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;
    if ((flags & must) != must || (flags & kNever) != 0) continue;
    const int score = 2 * __builtin_popcount(flags & like) - __builtin_popcount(flags & avoid);
    if (!best || score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

}  // namespace

VulkanMemoryTypes choose_memory_types(const VkPhysicalDeviceMemoryProperties& memory) {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  // Device memory that the host reaches through a window is slow to read: only memory that it
  // caches as its own is shared.
  return {.shared = memory_type(memory, kLocal | kHost | kCached, 0, 0),
          .local = memory_type(memory, kLocal, 0, kHost),
          .upload = memory_type(memory, kHost, 0, kLocal | kCached),
          .readback = memory_type(memory, kHost, kCached, kLocal)};
}

}  // namespace holdfast::hal
