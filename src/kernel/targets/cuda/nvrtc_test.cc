#include "holdfast/kernel/targets/cuda/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "holdfast/base/sync/thread.h"
#include "holdfast/kernel/targets/cuda/cuda_text.h"
#include "holdfast/kernel/targets/cuda/nvrtc_test.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

CompileJob job_of(const Definition& definition, const CallSignature& signature) {
  return {.kernel = definition.name,
          .variant = describe(definition, signature),
          .code = cuda_text(definition, signature)};
}

CompileJob scale_job(std::string source, std::string header = {}, std::string file = {}) {
  return job_of({.name = "scale",
                 .inputs = {"a"},
                 .outputs = {"y"},
                 .source = std::move(source),
                 .header = std::move(header),
                 .file = std::move(file)},
                {.inputs = {{}}, .outputs = {{}}});
}

std::string error_of(const CompileJob& job) {
  const Result<Code> code = compile_cuda(job, {.architecture = "compute_90"});
  EXPECT_FALSE(code.ok());
  if (code) return {};
  EXPECT_EQ(code.failure().code(), ErrorCode::usage);
  return code.failure().message();
}

class Nvrtc : public NvrtcTest {};

TEST_F(Nvrtc, a_virtual_architecture_gives_ptx_and_a_real_one_a_cubin) {
  const CompileJob job = scale_job("y[0] = a[0] * 2;");
  const std::string ptx = ptx_of(job);
  EXPECT_THAT(ptx, HasSubstr(".entry " + job.code.entry_point));
  const Result<Code> cubin = compile_cuda(job, {.architecture = "sm_90"});
  ASSERT_TRUE(cubin.ok()) << cubin.failure().message();
  EXPECT_THAT(as_text(cubin.value()), StartsWith("\x7f"
                                                 "ELF"));
}

TEST_F(Nvrtc, the_same_job_gives_the_same_bytes) {
  const CompileJob job = scale_job("y[0] = metal::exp(a[0]);");
  for (const char* architecture : {"compute_90", "sm_90"}) {
    const Result<Code> first = compile_cuda(job, {.architecture = architecture});
    const Result<Code> second = compile_cuda(job, {.architecture = architecture});
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first.value(), second.value());
  }
}

TEST_F(Nvrtc, an_error_in_the_body_names_kernel_variant_line_and_column) {
  const std::string error =
      error_of(scale_job("uint i = thread_position_in_grid.x;\n"
                         "  y[i] = b[i] * 2;\n"));
  EXPECT_THAT(error, HasSubstr("'scale'"));
  EXPECT_THAT(error, HasSubstr("a: float32[1] -> y: float32[1]"));
  EXPECT_THAT(error, HasSubstr("scale:2:10: identifier \"b\" is undefined"));
  EXPECT_THAT(error, HasSubstr("  y[i] = b[i] * 2;\n"));
}

TEST_F(Nvrtc, an_error_in_the_header_or_in_a_named_file_says_so) {
  EXPECT_THAT(error_of(scale_job("y[0] = f(a[0]);", "float f(float v) {\n  return v.x;\n}\n")),
              HasSubstr("scale.header:2:"));
  EXPECT_THAT(error_of(scale_job("\n\ny[0] = q;", "", "kernels\\my \"scale\".metal")),
              HasSubstr("kernels\\my \"scale\".metal:3:8: identifier \"q\" is undefined"));
}

TEST_F(Nvrtc, an_error_inside_the_language_points_to_the_authors_line) {
  EXPECT_THAT(error_of(scale_job("struct S { int v; };\nS s;\ny[0] = float(metal::exp(s));")),
              HasSubstr("scale:3"));
}

TEST_F(Nvrtc, columns_stay_behind_threadgroup_memory) {
  EXPECT_THAT(error_of(scale_job("threadgroup float t[4]; y[0] = t[0] + nothing;")),
              HasSubstr("scale:1:39: "));
}

TEST_F(Nvrtc, unsuffixed_literals_are_floats_and_columns_stay_behind_them) {
  const std::string ptx = ptx_of(scale_job("y[0] = a[0] * 0.1 + EPS;", "#define EPS 1e-5\n"));
  EXPECT_THAT(ptx, ::testing::Not(HasSubstr(".f64")));
  EXPECT_THAT(error_of(scale_job("int b;\ny[0] = 0.5*a[0]+.25*nothing;")),
              HasSubstr("scale:2:21: identifier \"nothing\" is undefined"));
}

TEST_F(Nvrtc, too_much_threadgroup_memory_is_an_error_of_the_text) {
  const Result<Code> code = compile_cuda(
      scale_job("threadgroup float t[1 << 20]; t[thread_index_in_threadgroup] = a[0];\n"
                "threadgroup_barrier(mem_flags::mem_threadgroup); y[0] = t[3];"),
      {.architecture = "sm_90"});
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.failure().code(), ErrorCode::usage);
  EXPECT_THAT(code.failure().message(), HasSubstr("too much shared data"));
}

TEST_F(Nvrtc, fast_math_uses_fast_instructions) {
  Definition definition{.name = "f",
                        .inputs = {"a"},
                        .outputs = {"y"},
                        .source =
                            "#ifdef __FAST_MATH__\ny[0] = a[0] / a[1];\n#else\n"
                            "y[0] = a[0] / a[1] + 1;\n#endif\n"};
  const CallSignature signature{.inputs = {{}}, .outputs = {{}}};
  EXPECT_THAT(ptx_of(job_of(definition, signature)), HasSubstr("div.rn.f32"));
  definition.math = MathMode::fast;
  const std::string fast = ptx_of(job_of(definition, signature));
  EXPECT_THAT(fast, HasSubstr("div.approx.ftz.f32"));
  EXPECT_THAT(fast, ::testing::Not(HasSubstr("add.ftz.f32")));
}

TEST_F(Nvrtc, native_text_compiles_as_it_is) {
  CompileJob job{.kernel = "own"};
  Native native{.kind = NativeKind::cuda,
                .text = "extern \"C\" __global__ void own(float* y) {\n  y[threadIdx.x] = 1;\n}\n",
                .entry_point = "own"};
  job.native = std::make_shared<Native>(native);
  EXPECT_THAT(ptx_of(job), HasSubstr(".entry own"));
  native.text = "extern \"C\" __global__ void own(float* y) {\n  y[threadIdx.q] = 1;\n}\n";
  job.native = std::make_shared<Native>(native);
  EXPECT_THAT(error_of(job), HasSubstr("own:2:15: "));
}

TEST_F(Nvrtc, an_unknown_architecture_is_refused_with_a_sentence) {
  const CompileJob job = scale_job("y[0] = 1;");
  for (const char* name : {"", "sm_", "hopper", "sm_90 --foo", "compute_123456"}) {
    const Result<Code> code = compile_cuda(job, {.architecture = name});
    ASSERT_FALSE(code.ok()) << name;
    EXPECT_EQ(code.failure().code(), ErrorCode::usage);
    EXPECT_THAT(code.failure().message(), HasSubstr("is no architecture of a GPU"));
  }
  const Result<Code> old = compile_cuda(job, {.architecture = "sm_20"});
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.failure().code(), ErrorCode::environment);
  EXPECT_THAT(old.failure().message(), HasSubstr("'sm_20'"));
}

TEST_F(Nvrtc, text_that_is_none_or_too_long_is_refused) {
  EXPECT_THAT(error_of(scale_job(std::string("y[0] = 1;\0", 10))), HasSubstr("zero byte"));
  EXPECT_THAT(error_of(scale_job(std::string(kMaxCudaBytes, ' '))), HasSubstr("split it"));
}

TEST_F(Nvrtc, many_threads_compile_at_once) {
  constexpr int kThreads = 4;
  const CompileJob job = scale_job("y[0] = metal::sin(a[0]);");
  const std::string expected = ptx_of(job);
  std::vector<std::string> found(kThreads);
  std::vector<sync::Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back("compile", [&, i] { found[static_cast<size_t>(i)] = ptx_of(job); });
  }
  for (sync::Thread& thread : threads) thread.join();
  for (const std::string& ptx : found) EXPECT_EQ(ptx, expected);
}

TEST_F(Nvrtc, line_information_names_the_authors_file) {
  const Result<Code> code = compile_cuda(scale_job("y[0] = 1;", "", "my.metal"),
                                         {.architecture = "compute_90", .debug = true});
  ASSERT_TRUE(code.ok()) << code.failure().message();
  EXPECT_THAT(as_text(code.value()), HasSubstr("my.metal"));
}

TEST_F(Nvrtc, the_version_has_all_that_decides_the_code) {
  const auto version = [](const CudaOptions& options) {
    return cuda_compiler_version(options).or_raise();
  };
  EXPECT_THAT(version({}), StartsWith("NVRTC "));
  EXPECT_EQ(version({}), version({}));
  EXPECT_NE(version({.architecture = "sm_90"}), version({.architecture = "sm_80"}));
  EXPECT_NE(version({}), version({.debug = true}));
}

TEST_F(Nvrtc, knows_its_architectures_in_order) {
  const std::vector<int> known = NvrtcLibrary::of_process().value().architectures();
  EXPECT_THAT(known, ::testing::Contains(90));
  EXPECT_TRUE(std::ranges::is_sorted(known));
}

TEST(NvrtcArchitecture, is_that_of_the_gpu_or_ptx_of_the_newest_before_it) {
  const std::vector<int> known{80, 90, 100};
  EXPECT_EQ(architecture_for("sm_90", known), "sm_90");
  EXPECT_EQ(architecture_for("sm_90a", known), "sm_90a");
  EXPECT_EQ(architecture_for("sm_89", known), "compute_80");
  EXPECT_EQ(architecture_for("sm_120", known), "compute_100");
  EXPECT_EQ(architecture_for("sm_75", known), "sm_75") << "no code for a later GPU would run";
  EXPECT_EQ(architecture_for("sm_120", {}), "sm_120");
  EXPECT_EQ(architecture_for("hopper", known), "hopper");
}

TEST(NvrtcArchitecture, with_its_own_instructions_from_hopper_on) {
  EXPECT_EQ(with_own_instructions("sm_89"), "sm_89");
  EXPECT_EQ(with_own_instructions("sm_90"), "sm_90a");
  EXPECT_EQ(with_own_instructions("sm_120"), "sm_120a");
  EXPECT_EQ(with_own_instructions("sm_90a"), "sm_90a");
  EXPECT_EQ(with_own_instructions("compute_100"), "compute_100");
  EXPECT_EQ(with_own_instructions(""), "");
}

TEST(NvrtcLibrary, without_nvrtc_the_failure_says_what_to_install) {
  const std::vector<std::string> names = {"/nowhere/libnvrtc.so"};
  const Result<NvrtcLibrary> library = NvrtcLibrary::load(names);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.failure().code(), ErrorCode::environment);
  EXPECT_THAT(library.failure().message(), HasSubstr("Install the CUDA toolkit"));
  EXPECT_THAT(library.failure().message(), HasSubstr("/nowhere/libnvrtc.so"));
}

TEST(NvrtcLibrary, another_library_is_not_taken_for_nvrtc) {
  const std::vector<std::string> names = {"libm.so.6"};
  const Result<NvrtcLibrary> library = NvrtcLibrary::load(names);
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.failure().message(), HasSubstr("libm.so.6 is not a working NVRTC"));
}

TEST(NvrtcLibrary, the_folder_in_the_environment_comes_first) {
  const holdfast::testing::Variable folder("HOLDFAST_NVRTC_DIR", "/my/folder");
  const holdfast::testing::Variable home("CUDA_HOME", "/my/cuda");
  const std::vector<std::string> names = nvrtc_names();
  ASSERT_FALSE(names.empty());
  EXPECT_THAT(names.front(), StartsWith("/my/folder/libnvrtc.so"));
  EXPECT_THAT(names, ::testing::Contains("libnvrtc.so.13"));
  EXPECT_THAT(names, ::testing::Contains("/my/cuda/lib64/libnvrtc.so.12"));
  EXPECT_THAT(names, ::testing::Contains("/usr/local/cuda/lib64/libnvrtc.so"));
}

}  // namespace
}  // namespace holdfast::kernel
