#include "holdfast/kernel/targets/vulkan/vulkan_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "holdfast/hal/devices.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::kernel {
namespace {

using hal::Access;
using hal::Binding;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kScaleByAddress = R"(layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer In { float x[]; };
layout(std430, binding = 1) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Parameters { float factor; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < y.length()) y[i] = x[i] * factor;
}
)";

CompileJob job_of(Native native) {
  CompileJob job;
  job.kernel = "scale";
  job.code.entry_point = native.entry_point;
  job.code.interface.bindings = {{ArgumentGroup::input, 0, Access::read},
                                 {ArgumentGroup::output, 0, Access::write}};
  job.code.interface.parameter_bytes = {4};
  job.code.interface.has_launch_block = false;
  job.native = std::make_shared<Native>(std::move(native));
  return job;
}
CompileJob glsl_job(std::string text) {
  return job_of({.kind = NativeKind::glsl, .text = std::move(text)});
}

// For no device in particular.
VulkanTarget any_target() { return VulkanTarget(hal::DeviceInfo{}); }

std::string refusal_of(const CompileJob& job, ErrorCode code) {
  const Result<Code> compiled = any_target().compile(job);
  EXPECT_FALSE(compiled);
  if (compiled) return {};
  EXPECT_EQ(compiled.failure().code(), code);
  return compiled.failure().message();
}

TEST(VulkanTarget, glsl_becomes_words_and_spirv_stays_as_it_is) {
  VulkanTarget target = any_target();
  const Code words = target.compile(glsl_job(kScaleByAddress)).or_raise();
  uint32_t magic = 0;
  ASSERT_GT(words.size(), 20U);
  std::memcpy(&magic, words.data(), 4);
  EXPECT_EQ(magic, 0x07230203U);
  EXPECT_EQ(target.compile(job_of({.kind = NativeKind::spirv, .module = words})).or_raise(), words);
  EXPECT_EQ(target.version().or_raise(), any_target().version().or_raise());
}

TEST(VulkanTarget, constants_are_macros_but_for_those_that_are_specialized) {
  CompileJob job = job_of({.kind = NativeKind::glsl,
                           .text = R"(layout(local_size_x = 1) in;
layout(constant_id = 0) const int WIDTH = 1;
layout(std430, binding = 0) readonly buffer In { T x[]; };
layout(std430, binding = 1) writeonly buffer Out { T y[]; };
#if YES != 1 || NO != 0 || N != -3
#error the macros are others
#endif
void main() { y[0] = x[0] * T(WIDTH); }
)",
                           .constants = {"WIDTH"}});
  job.constants = {{"T", Dtype::uint32}, {"YES", true}, {"NO", false}, {"N", -3}, {"WIDTH", 64}};
  EXPECT_TRUE(any_target().compile(job).ok()) << any_target().compile(job).failure().message();
  job.constants[3].value = int64_t{3};
  EXPECT_FALSE(any_target().compile(job).ok());
}

TEST(VulkanTarget, what_it_cannot_compile_is_refused_with_a_sentence) {
  EXPECT_THAT(refusal_of(job_of({.kind = NativeKind::ptx, .text = "x"}), ErrorCode::unsupported),
              HasSubstr("kind ptx does not run on Vulkan"));
  EXPECT_THAT(refusal_of(glsl_job("void main() {\n  oops;\n}"), ErrorCode::usage),
              HasSubstr("line 2: 'oops'"));
  EXPECT_THAT(
      refusal_of(job_of({.kind = NativeKind::glsl, .text = kScaleByAddress, .entry_point = "f"}),
                 ErrorCode::usage),
      HasSubstr("called main, not 'f'"));
}

TEST(VulkanTarget, natives_compute_on_vulkan) {
  if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
  const auto context = runtime::Context::create(hal::open_device("vulkan").or_raise());
  const auto stream = context->new_stream();
  const auto target = make_target(context->device()->info());
  const CompileJob glsl = glsl_job(kScaleByAddress);
  const Code code = target->compile(glsl).or_raise();
  const CompileJob spirv = job_of({.kind = NativeKind::spirv, .module = code});
  for (const CompileJob* job : {&glsl, &spirv}) {
    const auto pipeline = target->load(*context->device(), *job, code).or_raise();
    std::vector<float> numbers(100);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const auto x = stream->allocate({400}, "x");
    const auto y = stream->allocate({400}, "y");
    stream->upload(x, {}, std::as_bytes(std::span(numbers)));
    stream->dispatch(pipeline,
                     std::array{Binding::of(x, Access::read), Binding::of(y, Access::write)},
                     hal::Parameters::of(3.0F), {2, 1, 1}, "scale");
    stream->readback(y, {}, std::as_writable_bytes(std::span(numbers)));
    for (size_t i = 0; i < 100; ++i) ASSERT_EQ(numbers[i], 3.0F * static_cast<float>(i)) << i;
  }
  std::vector<std::byte> odd(code.begin(), code.end() - 1);
  const auto refused = target->load(*context->device(), spirv, odd);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.failure().message(), HasSubstr("words of four"));
}

}  // namespace
}  // namespace holdfast::kernel
