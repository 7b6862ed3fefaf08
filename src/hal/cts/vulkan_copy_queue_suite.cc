#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cts/vulkan_cts.h"
#include "holdfast/testing/vulkan.h"

// Queues that take copies and fills alone: the hardware's, or ours that share one which does more.

namespace holdfast::hal::cts {
namespace {

using ::testing::HasSubstr;

class VulkanCopyQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = holdfast::testing::why_no_vulkan(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    device_ = holdfast::testing::open_vulkan(
                  {.queues = 1, .copy_queues = 1, .device_memory_host_visible = false})
                  .or_raise();
  }
  Queue& compute() { return *device_->queues()[0]; }
  Queue& copies() { return *device_->queues()[1]; }
  Ref<Allocation> buffer(Bytes size, std::string name, MemoryKind kind) {
    return Allocation::whole(device_->create_buffer({size, kind, std::move(name)}).or_raise());
  }

  Ref<VulkanDevice> device_;
};

TEST_F(VulkanCopyQueue, follows_the_queues_that_take_everything) {
  EXPECT_EQ(device_->info().queues, 1U);
  EXPECT_EQ(device_->info().copy_queues, 1U);
  EXPECT_EQ(device_->queues().size(), 2U);
  EXPECT_THAT(copies().name(), HasSubstr("copy queue 0"));
}

TEST_F(VulkanCopyQueue, copies_and_fills_in_the_order_of_its_barriers_and_waits) {
  const auto data = buffer(4096_B, "data", MemoryKind::device);
  const auto result = buffer(4096_B, "result", MemoryKind::readback);
  const SpirvModule increment = spirv_of("increment");
  const auto kernel = device_->create_pipeline({"increment", increment, 1, {}}).or_raise();
  CommandList first(device_->info(), "fill");
  first.fill(data, range(0, 4096), std::byte{0});
  first.barrier();
  first.fill(data, range(1, 2), std::byte{1});
  const Point filled = copies().submit(first).or_raise();
  CommandList second(device_->info(), "compute");
  second.dispatch(kernel, std::array{Binding::of(data, Access::read_write)}, {}, {16, 1, 1});
  const Point computed = compute().submit(second, {{filled, WaitKind::data}}).or_raise();
  CommandList third(device_->info(), "copy");
  third.copy(data, range(0, 4096), result, range(0, 4096));
  ASSERT_TRUE(reached(copies().submit(third, {{computed, WaitKind::data}}).or_raise()));
  uint32_t words[2];
  std::memcpy(words, result->host_pointer(), sizeof words);
  EXPECT_EQ(words[0], 0x00010101U + 0U);
  EXPECT_EQ(words[1], 1U);
}

TEST_F(VulkanCopyQueue, refuses_a_list_with_a_kernel_and_leaves_it_with_the_caller) {
  const auto data = buffer(4096_B, "data", MemoryKind::device);
  const auto kernel =
      device_->create_pipeline({"increment", spirv_of("increment"), 1, {}}).or_raise();
  CommandList list(device_->info(), "computes");
  list.dispatch(kernel, std::array{Binding::of(data, Access::read_write)}, {}, {16, 1, 1});
  const auto refused = copies().submit(list);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(), HasSubstr("computes"));
  EXPECT_TRUE(reached(compute().submit(list).or_raise()));
}

}  // namespace
}  // namespace holdfast::hal::cts
