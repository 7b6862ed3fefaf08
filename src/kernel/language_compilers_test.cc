// The kernel language with every compiler on the PATH. Those that are not there are skipped by
// name. On another machine: holdfast_kernel_test --gtest_filter='*LanguageCompilers*' runs all of
// it.

#include <filesystem>

#include "holdfast/base/sanitizers.h"
#include "holdfast/kernel/compilers/subprocess.h"
#include "holdfast/kernel/language_rig_test.h"
#include "holdfast/kernel/targets/cpu/cpp_compiler.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;

// Why kernels cannot be compiled with the program; empty where they can.
std::string why_not(const std::string& program) {
  if (find_program(program).empty()) return program + " is not on the PATH";
  // Kernels are built with the sanitizer, too, and its runtime must be the one of this program.
  if (has_sanitizer() && !program.starts_with("g++")) {
    return "the sanitizer of this program is that of g++";
  }
  const auto found = CppCompiler::find();
  return found ? "" : found.failure().message();
}

struct LanguageCompilers : LanguageTest, ::testing::WithParamInterface<const char*> {
  testing::Variable cxx{"CXX", GetParam()};
};

TEST_P(LanguageCompilers, vectors_of_halves_are_made_of_any_number) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) GTEST_SKIP() << world.skipped();
  if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const Call call{.body = R"(
uint t = thread_position_in_grid.x;
half4 a = half4(x[t]);                        // of a float
half4 b = half4(x[t], 1, 2u, half(3));        // of anything
half2 c(x[t] * 2, 0.5);
half3 d = half3(c, x[t]);
a.xy = x[t] + 1;
a *= 2.0f;
a = a + x[t] * 0.5f - 1;
b += half4(float4(1, 2, 3, 4));
half e = x[t];
e += x[t];
half3 f = mix(half3(0), half3(4), 0.25f) + max(d, 1.0f) + fma(half3(x[t]), half3(2), half3(1));
half4 g[2] = {half4(1), 2.0f};
bfloat2 h(x[t], 3);
h = h * x[t] + bfloat(1);
y[0] = a.x; y[1] = a.w; y[2] = dot(b, half4(1.0f)); y[3] = c.y + d.z;
y[4] = e; y[5] = f.x + f.z; y[6] = g[0].x + g[1].w; y[7] = float(h.x) + float(h.y);
y[8] = float2(half(1), 2.5).y + int2(x[t], 7.9f).y + bool2(x[t], 0).x;
y[9] = dot(half2(x[t], 1), float2(2, 3)) + clamp(half(9), 0.0f, x[t]);
)",
                  .x = {3},
                  .outputs = 10,
                  .grid = {1, 1, 1}};
  for (const bool bounds : {false, true}) {
    Call checked = call;
    checked.bounds = bounds;
    EXPECT_THAT(run(checked),
                ElementsAre(8.5F, 6.5F, 19, 3.5F, 6, 14 + 11, 3, 10 + 10, 2.5F + 7 + 1, 12))
        << bounds;
  }
}

TEST_P(LanguageCompilers, threads_meet_exchange_and_count) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) GTEST_SKIP() << world.skipped();
  if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const Call call{.body = R"(
threadgroup half tile[40];
threadgroup atomic_uint count;
uint t = thread_index_in_threadgroup;
if (t == 0) atomic_store_explicit(&count, 0, memory_order_relaxed);
tile[t] = half(x[thread_position_in_grid.x]);
threadgroup_barrier(mem_flags::mem_threadgroup);
atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
float sum = simd_sum(float(tile[threads_per_threadgroup.x - 1 - t])) + simd_max(half2(t, 1)).y;
threadgroup_barrier(mem_flags::mem_threadgroup);
y[thread_position_in_grid.x] =
    sum + 1000 * atomic_load_explicit(&count, memory_order_relaxed) * metal::precise::sqrt(4.0f);
)",
                  .x = iota(50),
                  .outputs = 50,
                  .grid = {50, 1, 1},
                  .threadgroup = {40, 1, 1}};
  const std::vector<float> y = run(call);
  for (size_t i = 0; i < 50; ++i) {
    const size_t threads = i < 40 ? 40 : 10;
    const size_t first = i / 40 * 40;
    const size_t begin = (i - first) / 32 * 32;
    float expected = 1 + 2000 * static_cast<float>(threads);
    for (size_t t = begin; t < std::min(begin + 32, threads); ++t) {
      expected += static_cast<float>(first + threads - 1 - t);
    }
    EXPECT_EQ(y[i], expected) << i;
  }
}

// As a process of its own for each: what the tests of the language find is the compiler of CXX.
TEST_P(LanguageCompilers, nightly_every_test_of_the_language_passes) {
  if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  Subprocess tests{{"/bin/sh", "-c", "exec \"$0\" \"$@\" >&2",
                    std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_brief=1",
                    "--gtest_filter=Language*.*:CppText.every_body_compiles:-*nightly*"},
                   "/",
                   {std::string("CXX=") + GetParam()}};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    // Shards and filters are this process's own.
    if (!variable.starts_with("GTEST_") && !variable.starts_with("CXX=")) {
      tests.environment.emplace_back(variable);
    }
  }
  const SubprocessResult result = kernel::run(tests).or_raise();
  EXPECT_EQ(result.status, 0) << result.output;
}

INSTANTIATE_TEST_SUITE_P(OnThePath, LanguageCompilers,
                         ::testing::Values("g++", "g++-12", "g++-13", "g++-14", "g++-15", "clang++",
                                           "clang++-14", "clang++-15", "clang++-16", "clang++-17",
                                           "clang++-18", "clang++-19", "clang++-20"),
                         [](const ::testing::TestParamInfo<const char*>& compiler) {
                           std::string name = compiler.param;
                           std::ranges::replace(name, '+', 'x');
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::kernel
