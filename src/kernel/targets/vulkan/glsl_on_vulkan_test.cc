#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "holdfast/hal/devices.h"
#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/vulkan.h"

// From a user's text to numbers, through every layer there is.

namespace holdfast::kernel {
namespace {

using hal::Access;
using hal::Binding;

class GlslOnVulkan : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    context_ = runtime::Context::create(hal::open_device("vulkan").or_raise());
    stream_ = context_->new_stream();
  }
  std::vector<float> run(hal::SpirvModule module, float bias) {
    std::vector<float> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const auto kernel = context_->create_pipeline({"scale", std::move(module), 2, 4_B});
    const auto in = stream_->allocate({4000}, "in");
    const auto out = stream_->allocate({4000}, "out");
    stream_->upload(in, {}, std::as_bytes(std::span(numbers)));
    stream_->dispatch(kernel,
                      std::array{Binding::of(in, Access::read), Binding::of(out, Access::write)},
                      hal::Parameters::of(bias), {8, 1, 1}, "scale them");
    stream_->readback(out, {}, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }

  Ref<runtime::Context> context_;
  Ref<runtime::Stream> stream_;
};

constexpr const char* kScaleOnVulkan = R"(
layout(local_size_x = 128) in;
layout(constant_id = 3) const float kFactor = 1.0;
layout(std430, binding = 0) readonly buffer In { float x[]; };
layout(std430, binding = 1) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Parameters { float bias; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < y.length()) y[i] = x[i] * kFactor * FACTOR + bias;
}
)";

TEST_F(GlslOnVulkan, text_with_defines_and_constants_computes) {
  hal::SpirvModule module =
      compile_glsl({.name = "scale", .text = kScaleOnVulkan, .defines = {{"FACTOR", "2.0"}}})
          .or_raise();
  uint32_t three = 0;
  const float value = 3.0F;
  std::memcpy(&three, &value, sizeof three);
  module.constants.push_back({3, three});
  const std::vector<float> result = run(module, 0.5F);
  for (size_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], static_cast<float>(i) * 6.0F + 0.5F) << i;
  }
}

TEST_F(GlslOnVulkan, two_texts_of_one_name_run_their_own_code) {
  const auto twice =
      compile_glsl({.name = "scale", .text = kScaleOnVulkan, .defines = {{"FACTOR", "2.0"}}})
          .or_raise();
  const auto thrice =
      compile_glsl({.name = "scale", .text = kScaleOnVulkan, .defines = {{"FACTOR", "3.0"}}})
          .or_raise();
  EXPECT_EQ(run(twice, 0)[10], 20.0F);
  EXPECT_EQ(run(thrice, 0)[10], 30.0F);
  EXPECT_EQ(run(twice, 0)[10], 20.0F);
}

}  // namespace
}  // namespace holdfast::kernel
