#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel/targets/cpu/cpu_target.h"
#include "holdfast/kernel/targets/cpu/cpu_text.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"

// From a definition to numbers: what the generator writes, compiled, loaded and run.

namespace holdfast::kernel {
namespace {

using hal::Access;
using hal::Binding;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GeneratedOnCpu : public ::testing::Test {
 protected:
  static CompileJob job_of(const Definition& definition, bool bounds = false) {
    check(definition).raise_if_any();
    const CallSignature signature{.inputs = {{}}, .outputs = {{}}};
    CompileJob job;
    job.kernel = definition.name;
    job.variant = describe(definition, signature);
    job.code = cpu_text(definition, signature, {bounds});
    return job;
  }
  static Definition definition(std::string source, std::string header = "") {
    return {.name = "k",
            .inputs = {"x"},
            .outputs = {"y"},
            .source = std::move(source),
            .header = std::move(header)};
  }
  std::vector<float> run(const CompileJob& job, uint32_t count, uint32_t group) {
    const Code code = target_.compile(job).or_raise();
    const auto pipeline = target_.load(*context_->device(), job, code).or_raise();
    std::vector<float> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const auto x = stream_->allocate({count * 4}, "x");
    const auto y = stream_->allocate({count * 4}, "y");
    stream_->upload(x, {}, std::as_bytes(std::span(numbers)));
    const LaunchBlock block{{count, 1, 1}, {group, 1, 1}, {0, 0, 0}, 3};
    const auto groups = (count + group - 1) / group;
    stream_->dispatch(pipeline,
                      std::array{Binding::of(x, Access::read), Binding::of(y, Access::write)},
                      std::as_bytes(std::span(&block, 1)), {(groups + 2) / 3, 1, 1}, "run it");
    stream_->readback(y, {}, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  std::string failure_of(const CompileJob& job, uint32_t count = 100, uint32_t group = 32) {
    try {
      run(job, count, group);
    } catch (const Error& error) {
      return error.what();
    }
    return "no failure";
  }

  CpuTarget target_;
  Ref<runtime::Context> context_ =
      runtime::Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 1}));
  Ref<runtime::Stream> stream_ = context_->new_stream();
};

TEST_F(GeneratedOnCpu, a_plain_body_computes) {
  const auto result = run(job_of(definition("uint i = thread_position_in_grid.x;\n"
                                            "y[i] = metal::exp(x[i] * 0.01f) + 1;")),
                          1000, 96);
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_NEAR(result[i], std::exp(static_cast<float>(i) * 0.01F) + 1, 0.02) << i;
  }
}

TEST_F(GeneratedOnCpu, barriers_and_simdgroup_operations_compute) {
  // 300 threads in groups of 128: the last one is smaller, and so is its last simdgroup.
  const auto result = run(job_of(definition(R"(
threadgroup float tile[128];
uint t = thread_index_in_threadgroup;
tile[t] = x[thread_position_in_grid.x];
threadgroup_barrier(mem_flags::mem_threadgroup);
float sum = simd_sum(tile[threads_per_threadgroup.x - 1 - t]);
y[thread_position_in_grid.x] = sum;
)")),
                          300, 128);
  for (size_t i = 0; i < 300; ++i) {
    const size_t group = i / 128 * 128;
    const size_t threads = std::min<size_t>(128, 300 - group);
    const size_t first = (i - group) / 32 * 32;
    float expected = 0;
    for (size_t t = first; t < std::min(first + 32, threads); ++t) {
      expected += static_cast<float>(group + threads - 1 - t);
    }
    ASSERT_EQ(result[i], expected) << i;
  }
}

TEST_F(GeneratedOnCpu, errors_of_body_and_header_are_shown_where_the_author_wrote_them) {
  EXPECT_THAT(failure_of(job_of(definition("uint i = thread_position_in_grid.x;\n"
                                           "y[i] = x[i] + nothing;"))),
              AllOf(StartsWith("kernel 'k' (x: float32"),
                    HasSubstr("\nk:2:15: 'nothing' was not declared in this scope\n"
                              "  | y[i] = x[i] + nothing;\n"
                              "  |               ^")));
  EXPECT_THAT(failure_of(job_of(definition("y[thread_position_in_grid.x] = f(1);",
                                           "float f(float v) {\n  return v + nothing;\n}"))),
              HasSubstr("\nk.header:2:14: 'nothing' was not declared in this scope\n"
                        "  |   return v + nothing;\n"
                        "  |              ^"));
  // Wrong use of what the language gives: at the use.
  EXPECT_THAT(failure_of(job_of(definition("struct S { int a; } s{1};\n"
                                           "y[thread_position_in_grid.x] = simd_sum(s).a;"))),
              HasSubstr("\nk:2:"));
  EXPECT_THAT(failure_of(job_of(definition("y[0] = 1;\nif (x[0] > 0) {"))),
              HasSubstr("\nk:2:15: "));
}

TEST_F(GeneratedOnCpu, unsuffixed_literals_are_floats_and_columns_stay_behind_them) {
  const auto result = run(job_of(definition("static_assert(sizeof(0.5) == 4 && sizeof(EPS) == 4);\n"
                                            "static_assert(sizeof(0.5L) > 4 && sizeof(1) == 4);\n"
                                            "y[thread_position_in_grid.x] = x[0] + 0.1;",
                                            "#define EPS 1e-5\n")),
                          1, 1);
  EXPECT_EQ(result[0], 0.1F);
  EXPECT_THAT(failure_of(job_of(definition("int b;\ny[0] = 0.5*x[0]+.25*nothing;"))),
              HasSubstr("k:2:21: "));
}

TEST_F(GeneratedOnCpu, an_index_out_of_bounds_names_everything) {
  EXPECT_THAT(failure_of(job_of(definition("uint i = thread_position_in_grid.x;\n\n"
                                           "y[i] = x[i + 7];"),
                                true)),
              HasSubstr("kernel 'k', k:3: index 100 is outside 'x', which has 100 elements"));
  EXPECT_THAT(failure_of(job_of(definition("uint i = thread_position_in_grid.x;\n"
                                           "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                                           "y[i - 1] = x[i];"),
                                true)),
              HasSubstr("outside 'y', which has 100 elements"));
}

TEST_F(GeneratedOnCpu, assertions_and_threads_that_miss_a_barrier_name_their_line) {
  EXPECT_THAT(failure_of(job_of(definition("uint i = thread_position_in_grid.x;\n"
                                           "assert(x[i] < 50);\ny[i] = 0;"))),
              HasSubstr("kernel 'k', k:2: the assertion 'x[i] < 50' does not hold"));
  EXPECT_THAT(failure_of(job_of(definition("uint i = thread_position_in_grid.x;\n"
                                           "if (i == 40 || i == 41) return;\n"
                                           "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                                           "y[i] = 0;"))),
              HasSubstr("kernel 'k': 2 of 32 threads returned before the barrier at line 3"));
}

}  // namespace
}  // namespace holdfast::kernel
