#include "holdfast/hal/vulkan/vulkan_memory_types.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace holdfast::hal {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

VulkanMemoryTypes choose(std::initializer_list<VkMemoryPropertyFlags> types) {
  VkPhysicalDeviceMemoryProperties memory{};
  for (const VkMemoryPropertyFlags flags : types) {
    memory.memoryTypes[memory.memoryTypeCount++].propertyFlags = flags;
  }
  return choose_memory_types(memory);
}

TEST(VulkanMemoryTypes, one_type_of_all_kinds_serves_every_purpose) {
  const VulkanMemoryTypes types = choose({kLocal | kHost | kCached});
  for (const auto& type : {types.shared, types.local, types.upload, types.readback}) {
    EXPECT_EQ(type, 0U);
  }
}

TEST(VulkanMemoryTypes, a_discrete_device_has_one_for_each_purpose_and_none_that_is_shared) {
  // The window onto the device's memory comes last, and is nobody's choice.
  const VulkanMemoryTypes types = choose({0, kLocal, kHost, kHost | kCached, kLocal | kHost});
  EXPECT_EQ(types.shared, std::nullopt);
  EXPECT_EQ(types.local, 1U);
  EXPECT_EQ(types.upload, 2U);
  EXPECT_EQ(types.readback, 3U);
}

TEST(VulkanMemoryTypes, without_the_best_type_the_next_is_taken) {
  const VulkanMemoryTypes window_alone = choose({kLocal | kHost});
  EXPECT_EQ(window_alone.local, 0U);
  EXPECT_EQ(window_alone.upload, 0U);
  EXPECT_EQ(window_alone.readback, 0U);
  const VulkanMemoryTypes only_cached = choose({kLocal, kHost | kCached});
  EXPECT_EQ(only_cached.upload, 1U);
  const VulkanMemoryTypes never_cached = choose({kLocal, kHost});
  EXPECT_EQ(never_cached.readback, 1U);
}

TEST(VulkanMemoryTypes, what_lacks_a_property_is_not_taken) {
  const VulkanMemoryTypes types = choose({VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, kCached, 0});
  for (const auto& type : {types.shared, types.local, types.upload, types.readback}) {
    EXPECT_EQ(type, std::nullopt);
  }
}

TEST(VulkanMemoryTypes, protected_lazy_and_uncached_memory_is_left_alone) {
  for (const VkMemoryPropertyFlags never :
       {VK_MEMORY_PROPERTY_PROTECTED_BIT, VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT,
        VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD}) {
    const VulkanMemoryTypes types = choose({kLocal | kHost | kCached | never, kLocal, kHost});
    EXPECT_EQ(types.shared, std::nullopt) << never;
    EXPECT_EQ(types.local, 1U) << never;
    EXPECT_EQ(types.upload, 2U) << never;
    EXPECT_EQ(types.readback, 2U) << never;
  }
}

}  // namespace
}  // namespace holdfast::hal
