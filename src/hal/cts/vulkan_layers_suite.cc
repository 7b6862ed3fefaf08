#include <embedded/cts_spirv.h>

#include <algorithm>
#include <array>

#include "holdfast/base/env.h"
#include "holdfast/hal/cts/vulkan_cts.h"

// The Khronos validation layers as an oracle: they must be awake, or their silence means nothing.

namespace holdfast::hal::cts {
namespace {

class VulkanLayers : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why = testing::why_no_vulkan();
    if (why.empty()) why = testing::why_no_vulkan_layers();
    if (!why.empty()) GTEST_SKIP() << why;
    VulkanOptions options;
    // Where the variable asks for them it must do so alone, as for all other tests.
    options.layers = !env::flag("HOLDFAST_VULKAN_LAYERS").value_or(false);
    device_ = testing::open_vulkan(options).or_raise();
    const std::span<const uint32_t> words = embedded::cts_spirv("copy_u32");
    kernel_ =
        device_->create_pipeline({"copy_u32", SpirvModule{{words.begin(), words.end()}}, 2, {}})
            .or_raise();
    for (Ref<Allocation>& each : data_) {
      each =
          Allocation::whole(device_->create_buffer({{256}, MemoryKind::device, "data"}).or_raise());
    }
  }

  // Copies data 0 to data 1, then data 1 to data 2.
  void run_two_copies(bool barrier) {
    CommandList work(device_->info(), "work");
    work.fill(data_[0], range(0, 256), std::byte{1});
    work.barrier();
    copy(work, 0, 1);
    if (barrier) work.barrier();
    copy(work, 1, 2);
    ASSERT_TRUE(reached(device_->queues()[0]->submit(work).or_raise()));
  }
  static bool has(const std::vector<VulkanMessage>& messages, std::string_view id) {
    return std::ranges::any_of(
        messages, [&](const VulkanMessage& m) { return m.id.find(id) != std::string::npos; });
  }

  Ref<VulkanDevice> device_;

 private:
  void copy(CommandList& work, size_t from, size_t to) const {
    const std::vector bindings{Binding::of(data_[from], Access::read),
                               Binding::of(data_[to], Access::write)};
    work.dispatch(kernel_, bindings, {}, {1, 1, 1});
  }

  Ref<Pipeline> kernel_;
  std::array<Ref<Allocation>, 3> data_;
};

TEST_F(VulkanLayers, are_silent_where_a_barrier_orders_two_dispatches) {
  run_two_copies(true);
  EXPECT_TRUE(testing::take_vulkan_messages().empty());
}

TEST_F(VulkanLayers, report_two_dispatches_that_no_barrier_orders) {
  run_two_copies(false);
  EXPECT_TRUE(has(testing::take_vulkan_messages(), "SYNC-HAZARD"));
}

TEST_F(VulkanLayers, report_what_is_left_when_a_device_goes) {
  // Of the core checks: something that nobody destroyed.
  const auto create =
      testing::vulkan_function<PFN_vkCreateSemaphore>(*device_, "vkCreateSemaphore");
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  VkSemaphore left = VK_NULL_HANDLE;
  ASSERT_EQ(create(static_cast<VkDevice>(device_->handles().device), &info, nullptr, &left),
            VK_SUCCESS);
  device_->close(patience());
  EXPECT_TRUE(has(testing::take_vulkan_messages(), "VUID-vkDestroyDevice-device-00378"));
}

// Commands of one queue in two submits that no barrier orders: seen only where VK_LAYER_ENABLES
// asks for it, and silently not at all where that is misspelt.
TEST_F(VulkanLayers, report_two_submits_that_no_barrier_orders_where_asked_to) {
  const std::string enables = env::text("VK_LAYER_ENABLES").value_or("");
  if (enables.find("SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT") == std::string::npos) {
    GTEST_SKIP() << "VK_LAYER_ENABLES does not ask for it";
  }
  const auto function = [&]<typename F>(F*, const char* name) {
    return testing::vulkan_function<F>(*device_, name);
  };
#define HOLDFAST_VULKAN(NAME) function(static_cast<PFN_##NAME*>(nullptr), #NAME)
  const auto device = static_cast<VkDevice>(device_->handles().device);
  VkQueue queue = VK_NULL_HANDLE;
  HOLDFAST_VULKAN(vkGetDeviceQueue)(device, 0, 0, &queue);
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  VkCommandPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(HOLDFAST_VULKAN(vkCreateCommandPool)(device, &pool_info, nullptr, &pool), VK_SUCCESS);
  VkBufferCreateInfo buffer_info{};
  buffer_info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  buffer_info.size = 256;
  buffer_info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  ASSERT_EQ(HOLDFAST_VULKAN(vkCreateBuffer)(device, &buffer_info, nullptr, &buffer), VK_SUCCESS);
  VkMemoryRequirements needs{};
  HOLDFAST_VULKAN(vkGetBufferMemoryRequirements)(device, buffer, &needs);
  VkMemoryAllocateInfo memory_info{};
  memory_info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  memory_info.allocationSize = needs.size;
  while (((needs.memoryTypeBits >> memory_info.memoryTypeIndex) & 1U) == 0) {
    ++memory_info.memoryTypeIndex;
  }
  VkDeviceMemory memory = VK_NULL_HANDLE;
  ASSERT_EQ(HOLDFAST_VULKAN(vkAllocateMemory)(device, &memory_info, nullptr, &memory), VK_SUCCESS);
  ASSERT_EQ(HOLDFAST_VULKAN(vkBindBufferMemory)(device, buffer, memory, 0), VK_SUCCESS);

  std::array<VkCommandBuffer, 2> commands{};
  VkCommandBufferAllocateInfo commands_info{};
  commands_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  commands_info.commandPool = pool;
  commands_info.commandBufferCount = 2;
  ASSERT_EQ(HOLDFAST_VULKAN(vkAllocateCommandBuffers)(device, &commands_info, commands.data()),
            VK_SUCCESS);
  for (size_t i = 0; i < 2; ++i) {
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    HOLDFAST_VULKAN(vkBeginCommandBuffer)(commands[i], &begin);
    if (i == 0) {
      HOLDFAST_VULKAN(vkCmdFillBuffer)(commands[i], buffer, 0, 128, 1);
    } else {
      const VkBufferCopy region{0, 128, 128};
      HOLDFAST_VULKAN(vkCmdCopyBuffer)(commands[i], buffer, buffer, 1, &region);
    }
    HOLDFAST_VULKAN(vkEndCommandBuffer)(commands[i]);
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands[i];
    HOLDFAST_VULKAN(vkQueueSubmit)(queue, 1, &submit, VK_NULL_HANDLE);
  }
  HOLDFAST_VULKAN(vkQueueWaitIdle)(queue);
  HOLDFAST_VULKAN(vkDestroyCommandPool)(device, pool, nullptr);
  HOLDFAST_VULKAN(vkDestroyBuffer)(device, buffer, nullptr);
  HOLDFAST_VULKAN(vkFreeMemory)(device, memory, nullptr);
#undef HOLDFAST_VULKAN
  EXPECT_TRUE(has(testing::take_vulkan_messages(), "SYNC-HAZARD"));
}

}  // namespace
}  // namespace holdfast::hal::cts
