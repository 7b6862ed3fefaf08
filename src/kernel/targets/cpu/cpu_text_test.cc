// Kernel text for the CPU: as text, and as the compiler sees it. language_test.cc runs it.

#include "holdfast/kernel/targets/cpu/cpu_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/generate/bodies_test.h"
#include "holdfast/kernel/generate/golden_test.h"
#include "holdfast/kernel/targets/cpu/cpp_compiler.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GeneratedKernel generated(const KernelBody& body, bool bounds = false) {
  EXPECT_FALSE(check(body.definition)) << check(body.definition).message();
  EXPECT_FALSE(check(body.definition, body.signature));
  return cpu_text(body.definition, body.signature, {bounds});
}

CppOutcome compiled(const GeneratedKernel& kernel) {
  return CppCompiler::find()
      .or_raise()
      ->compile({kernel.preamble + kernel.text, kernel.math}, {})
      .or_raise();
}

TEST(CppText, every_body_compiles) {
  for (const KernelBody& body : bodies_for_tests()) {
    for (const bool bounds : {false, true}) {
      const CppOutcome outcome = compiled(generated(body, bounds));
      EXPECT_FALSE(outcome.object.empty())
          << body.definition.name << (bounds ? " checked" : "") << "\n"
          << outcome.messages;
    }
  }
}

TEST(CppText, the_same_arguments_give_the_same_text) {
  const KernelBody body = unary_body("same", "y[0] = x[0];");
  const GeneratedKernel first = generated(body);
  const GeneratedKernel second = generated(body);
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.preamble, second.preamble);
  EXPECT_EQ(first.entry_point, second.entry_point);
  EXPECT_NE(first.entry_point, generated(unary_body("same", "y[0] = x[1];")).entry_point)
      << "two kernels can be in one program";
}

TEST(CppText, a_kernel_has_the_parts_of_the_language_that_it_uses) {
  const std::string plain = generated(unary_body("plain", "y[0] = x[0];")).preamble;
  for (const char* part : {"hf_atomic", "simd_sum", "rsqrt", "hf_checked", "M_PI_F",
                           "define assert", "struct hf_bfloat {", "thread_local hf_host"}) {
    EXPECT_THAT(plain, Not(HasSubstr(part)));
  }
}

TEST(CppText, what_threads_write_across_barriers_is_not_promised_to_be_theirs_alone) {
  const std::string meets =
      generated(unary_body("meets", "threadgroup_barrier(mem_flags::mem_device); y[0] = x[0];"))
          .text;
  EXPECT_THAT(meets, HasSubstr("const float* __restrict__ x"));
  EXPECT_THAT(meets, HasSubstr("float* y"));
  EXPECT_THAT(generated(unary_body("alone", "y[0] = x[0];")).text,
              HasSubstr("float* __restrict__ y"));
}

TEST(CppText, a_kernel_without_barriers_is_vectorised) {
  const testing::Variable vectoriser("CXX", "g++ -fopt-info-vec");
  if (!CppCompiler::find()) GTEST_SKIP() << "only g++ tells what it vectorises";
  for (const char* line : {"y[i] = 2.0f * x[i] + 1.0f;", "y[i] = max(x[i], 0.0f);",
                           "y[i] = x[i] + thread_position_in_threadgroup.x;",
                           "float4 v = float4(x[i]); y[i] = metal::sqrt(v.x * v.y);"}) {
    const std::string source = std::string("uint i = thread_position_in_grid.x;\n") + line;
    EXPECT_THAT(compiled(generated(unary_body("vectorised", source))).messages,
                HasSubstr("loop vectorized"))
        << source;
  }
}

TEST(CppText, clang_takes_it_too) {
  const testing::Variable clang("CXX", "clang++-16");
  if (!CppCompiler::find()) GTEST_SKIP() << "there is no clang++-16";
  for (const KernelBody& body : feature_bodies()) {
    const CppOutcome outcome = compiled(generated(body));
    EXPECT_FALSE(outcome.object.empty()) << body.definition.name << "\n" << outcome.messages;
  }
}

TEST(CppGolden, elementwise) {
  KernelBody body = unary_body("scale", R"(uint elem = thread_position_in_grid.x;
T tmp = x[elem];
y[elem] = metal::exp(tmp) * N + eps;)",
                               Dtype::float16);
  body.signature.constants.push_back({"N", int64_t{4}});
  body.signature.params = {{"eps", Dtype::float32}};
  expect_golden("cpp_elementwise", generated(body));
  expect_golden("cpp_elementwise_checked", generated(body, true));
  body.definition.math = MathMode::fast;
  expect_golden("cpp_elementwise_fast", generated(body));
}

TEST(CppGolden, strided) {
  KernelBody body = unary_body("gather", R"(uint elem = thread_position_in_grid.x;
auto loc = elem_to_loc(elem, x_shape, x_strides, x_ndim);
y[elem] = x[loc] * scale;
)");
  body.definition.inputs.emplace_back("scale");
  body.definition.file = "kernels/gather \"1\".metal";
  body.signature.inputs = {{Dtype::float32, 3}, {Dtype::float32, 0}};
  expect_golden("cpp_strided", generated(body));
}

TEST(CppGolden, group_sum) {
  KernelBody body = unary_body("group_sum", R"(threadgroup float shared[N];
uint t = thread_index_in_threadgroup;
shared[t] = x[thread_position_in_grid.x];
threadgroup_barrier(mem_flags::mem_threadgroup);
#if N > 32
if (t < 32) shared[t] += shared[t + 32];
#endif
if (t == 0) y[threadgroup_position_in_grid.x] = total(shared);
)",
                               Dtype::float32, R"(#include <metal_stdlib>
using namespace metal;
float total(threadgroup float* v) { return v[0] + v[1]; }
)");
  body.signature.constants = {{"N", int64_t{64}}};
  expect_golden("cpp_group_sum", generated(body));
}

TEST(CppGolden, histogram) {
  KernelBody body = unary_body("histogram", R"(uint i = thread_position_in_threadgroup.x;
atomic_fetch_add_explicit(&y[x[i]], 1u, memory_order_relaxed);
)",
                               Dtype::uint32);
  body.definition.atomic_outputs = true;
  expect_golden("cpp_histogram", generated(body));
}

}  // namespace
}  // namespace holdfast::kernel
