#include "holdfast/runtime/stream.h"

#include <gmock/gmock.h>

#include <numeric>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;

TEST(Stream, upload_compute_readback_gives_the_result) {
  const Ref<Context> context = Context::create(hal::CpuDevice::open());
  const Ref<Stream> stream = context->new_stream();
  const Ref<hal::Pipeline> doubled =
      context->create_pipeline({"doubled", hal::HostFunction([](const hal::HostGroup& g) {
                                  const auto in = g.binding<const uint32_t>(0);
                                  const auto out = g.binding<uint32_t>(1);
                                  const uint32_t i = g.group.x;
                                  out[i] = 2 * in[i] + g.parameter<uint32_t>();
                                }),
                                2, 4_B});
  std::vector<uint32_t> data(100);
  std::iota(data.begin(), data.end(), 0U);
  const auto in = stream->allocate(400_B, "in");
  const auto out = stream->allocate(400_B, "out");
  stream->upload(in, {}, std::as_bytes(std::span(data)));
  const uint32_t bias = 7;
  stream->dispatch(doubled,
                   std::array{Binding::of(in, Access::read), Binding::of(out, Access::write)},
                   hal::Parameters::of(bias), {100, 1, 1});
  std::vector<uint32_t> result(100);
  stream->readback(out, {}, std::as_writable_bytes(std::span(result)));
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(result[i], 2 * i + 7);
  EXPECT_EQ(context->stats().commands, 1U);
}

TEST(Stream, a_copy_of_two_lengths_is_refused_with_what_goes_where) {
  const Ref<Context> context = Context::create(hal::CpuDevice::open());
  const Ref<Stream> stream = context->new_stream();
  const auto from = stream->allocate(16_B, "from");
  const auto to = stream->allocate(8_B, "to");
  EXPECT_THAT(
      [&] { stream->copy(Binding::of(from, Access::read), Binding::of(to, Access::write)); },
      ::testing::ThrowsMessage<UsageError>(
          ::testing::HasSubstr("16 bytes cannot be copied to a range of 8")));
}

}  // namespace
}  // namespace holdfast::runtime
