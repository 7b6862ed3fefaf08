#include <gtest/gtest.h>

#include <numeric>

#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/cuda.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::testing {
namespace {

void expect_transfers_through_the_copy_queue(const Ref<hal::Device>& device) {
  const Ref<hal::Timeline> timeline = device->queues()[1]->timeline();
  const auto context = runtime::Context::create(device);
  EXPECT_THROW((void)context->new_stream({"copies", 1}), UsageError);
  const auto stream = context->new_stream();
  const auto memory = stream->allocate(64_KiB, "memory");
  std::vector<uint32_t> content(16384);
  std::iota(content.begin(), content.end(), 7);
  stream->upload(memory, {}, std::as_bytes(std::span(content)));
  std::vector<uint32_t> back(content.size());
  stream->readback(memory, {}, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, content);
  EXPECT_TRUE(timeline->was_issued({1})) << "nothing went through the copy queue";
}

TEST(VulkanCopyQueue, takes_the_runtimes_uploads_and_readbacks_and_no_stream) {
  if (const std::string why = why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
  expect_transfers_through_the_copy_queue(
      open_vulkan({.queues = 1, .copy_queues = 1, .device_memory_host_visible = false}).or_raise());
}

TEST(CudaCopyQueue, takes_the_runtimes_uploads_and_readbacks_and_no_stream) {
  if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
  expect_transfers_through_the_copy_queue(open_cuda({.queues = 1, .copy_queues = 1}).or_raise());
}

}  // namespace
}  // namespace holdfast::testing
