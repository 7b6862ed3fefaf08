#include "holdfast/kernel/targets/cuda/cuda_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/generate/bodies_test.h"
#include "holdfast/kernel/generate/golden_test.h"
#include "holdfast/kernel/targets/cuda/nvrtc_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CompileJob job_of(const KernelBody& body, const GenerateOptions& options = {}) {
  return {.kernel = body.definition.name,
          .variant = describe(body.definition, body.signature),
          .code = cuda_text(body.definition, body.signature, options)};
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class CudaText : public NvrtcTest {};

TEST_F(CudaText, every_body_compiles) {
  for (const KernelBody& body : bodies_for_tests()) {
    SCOPED_TRACE(describe(body.definition, body.signature));
    ASSERT_FALSE(check(body.definition)) << check(body.definition).message();
    ASSERT_FALSE(check(body.definition, body.signature));
    EXPECT_THAT(ptx_of(job_of(body)), HasSubstr(".visible .entry"));
  }
}

TEST_F(CudaText, every_body_compiles_with_checked_bounds) {
  for (const KernelBody& body : bodies_for_tests()) {
    SCOPED_TRACE(describe(body.definition, body.signature));
    const std::string ptx = ptx_of(job_of(body, {.bounds = true}));
    EXPECT_THAT(ptx, HasSubstr("trap;"));
    EXPECT_THAT(ptx, HasSubstr("vprintf"));
  }
}

TEST_F(CudaText, every_body_compiles_with_fast_math_for_the_oldest_architecture) {
  for (KernelBody& body : bodies_for_tests()) {
    SCOPED_TRACE(describe(body.definition, body.signature));
    body.definition.math = MathMode::fast;
    EXPECT_THAT(ptx_of(job_of(body), "compute_75"), HasSubstr(".visible .entry"));
  }
}

TEST_F(CudaText, the_workloads_become_finished_code) {
  for (const KernelBody& body : {layer_norm_body(Dtype::float16), rotation_body(Dtype::bfloat16, 4),
                                 quantized_product_body(Dtype::float32)}) {
    const Result<Code> code = compile_cuda(job_of(body), {.architecture = "sm_90"});
    EXPECT_TRUE(code.ok()) << code.failure().message();
  }
}

TEST_F(CudaText, a_simple_kernel_reads_through_the_read_only_path_and_spills_nothing) {
  const std::string ptx = ptx_of(job_of(unary_body("simple", R"(
    uint i = thread_position_in_grid.x;
    y[i] = x[i] * 2 + x[i + 1];
  )")));
  EXPECT_EQ(count(ptx, "ld.global.nc.f32") + count(ptx, "ld.global.nc.b32"), 2U) << ptx;
  EXPECT_THAT(ptx, Not(HasSubstr(".local")));
  EXPECT_THAT(ptx, Not(HasSubstr("bar.sync")));
}

TEST_F(CudaText, written_arguments_are_not_read_through_the_read_only_path) {
  KernelBody body = unary_body("update", "y[0] = state[0] + x[0]; state[0] = 1;");
  body.definition.in_place = {"state"};
  body.signature.in_place = {typed(Dtype::float32)};
  const std::string ptx = ptx_of(job_of(body));
  EXPECT_EQ(count(ptx, "ld.global.nc"), 1U) << ptx;
}

TEST_F(CudaText, a_kernel_that_waits_for_grids_does_nothing_before) {
  size_t waiting = 0;
  for (const KernelBody& body : bodies_for_tests()) {
    const CompileJob job = job_of(body, {.grids_may_overlap = true});
    if (!job.code.interface.waits_for_grids) continue;
    SCOPED_TRACE(describe(body.definition, body.signature));
    ++waiting;
    const std::string ptx = ptx_of(job);
    const std::string_view entry = std::string_view(ptx).substr(ptx.find(".entry"));
    ASSERT_EQ(count(entry, "griddepcontrol.wait"), 1U);
    const std::string_view before = entry.substr(0, entry.find("griddepcontrol.wait"));
    for (const char* no : {"ld.global", "st.global", "atom.", "red.", "bra", "ret;", "call"}) {
      EXPECT_EQ(count(before, no), 0U) << no;
    }
  }
  EXPECT_GT(waiting, 4U);
}

TEST_F(CudaText, a_kernel_that_waits_for_grids_reads_no_argument_as_read_only) {
  KernelBody body = unary_body("update", "y[0] = state[0] + x[0] + x[1]; y[1] = x[0] + s;");
  body.definition.in_place = {"state"};
  body.signature.in_place = {typed(Dtype::float32)};
  body.definition.inputs.emplace_back("s");
  body.signature.inputs.push_back(typed(Dtype::float32, 0));
  for (const bool bounds : {false, true}) {
    const CompileJob job = job_of(body, {.bounds = bounds, .grids_may_overlap = true});
    EXPECT_TRUE(job.code.interface.waits_for_grids);
    EXPECT_EQ(count(ptx_of(job), "ld.global.nc"), 0U);
  }
}

TEST_F(CudaText, loops_and_what_names_the_read_only_path_do_not_wait_for_grids) {
  const auto waits = [](const char* source, bool may = true) {
    return job_of(unary_body("simple", source), {.grids_may_overlap = may})
        .code.interface.waits_for_grids;
  };
  EXPECT_TRUE(waits("y[0] = x[0];"));
  EXPECT_FALSE(waits("y[0] = x[0];", false));
  EXPECT_FALSE(waits("for (int i = 0; i < 4; ++i) y[i] = x[i];"));
  EXPECT_FALSE(waits("int i = 0; while (i < 4) { y[i] = x[i]; ++i; }"));
  EXPECT_FALSE(waits("y[0] = __ldg(&x[0]);"));
}

TEST_F(CudaText, a_header_may_bound_the_threads_of_its_groups) {
  const Definition definition{.name = "bounded",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .source = "y[thread_position_in_grid.x] = x[0];",
                              .header =
                                  "#ifdef __CUDACC__\n"
                                  "#define GROUP_BOUNDS __launch_bounds__(512, 2)\n"
                                  "#endif\n"};
  const CallSignature signature{.inputs = {{Dtype::float32, 1}}, .outputs = {{Dtype::float32, 1}}};
  EXPECT_THAT(ptx_of(job_of({definition, signature})),
              AllOf(HasSubstr(".maxntid 512"), HasSubstr(".minnctapersm 2")));
}

TEST_F(CudaText, shapes_and_strides_are_read_where_they_are_passed) {
  for (const KernelBody& body : feature_bodies()) {
    if (body.definition.name != "strided_exp") continue;
    const std::string ptx = ptx_of(job_of(body));
    EXPECT_THAT(ptx, Not(HasSubstr(".local"))) << ptx;
    EXPECT_THAT(ptx, HasSubstr("ld.param")) << ptx;
  }
}

TEST_F(CudaText, parameters_lie_where_the_interface_says) {
  KernelBody body =
      unary_body("laid_out", "y[0] = z_ndim + x_shape[0] + x_strides[0] + a + b + c;");
  body.definition.inputs.emplace_back("z");
  body.definition.source += " auto p = z_strides; auto q = z_shape; (void)p; (void)q;";
  body.signature.inputs.push_back(typed(Dtype::float32, 0));
  for (const Dtype a : {Dtype::bool_, Dtype::int16, Dtype::float32, Dtype::float64}) {
    for (const Dtype b : {Dtype::uint8, Dtype::bfloat16, Dtype::int64}) {
      body.signature.params = {{"a", a}, {"b", b}, {"c", Dtype::int32}};
      KernelBody checked = body;
      const Interface interface = job_of(body).code.interface;
      for (size_t i = 0; i < interface.fields.size(); ++i) {
        if (interface.fields[i].count == 0) continue;
        checked.definition.source +=
            fmt::format("static_assert(__INTADDR__(&((hf_parameters*)0)->hf_f{}) == {});\n", i,
                        interface.fields[i].offset.value);
      }
      EXPECT_THAT(ptx_of(job_of(checked)), HasSubstr(".entry"));
    }
  }
}

TEST_F(CudaText, barriers_and_simd_operations_are_instructions) {
  const std::string ptx = ptx_of(job_of(layer_norm_body(Dtype::float16)));
  EXPECT_THAT(ptx, HasSubstr("bar.sync"));
  EXPECT_THAT(ptx, HasSubstr("shfl.sync"));
  EXPECT_THAT(ptx, HasSubstr(".shared"));
  EXPECT_THAT(ptx, Not(HasSubstr(".local")));
  EXPECT_THAT(ptx_of(job_of(unary_body("sum", "y[thread_position_in_grid.x] = simd_sum(x[0]);",
                                       Dtype::int32))),
              HasSubstr("redux.sync.add"));
  EXPECT_THAT(
      ptx_of(job_of(unary_body("meet", "simdgroup_barrier(mem_flags::mem_none); y[0] = 1;"))),
      HasSubstr("bar.warp.sync"));
}

TEST_F(CudaText, half_arithmetic_is_done_in_half) {
  const std::string ptx =
      ptx_of(job_of(unary_body("halves", "y[0] = x[0] * x[1] + x[2];", Dtype::float16)));
  EXPECT_THAT(ptx, HasSubstr("mul.rn.f16"));
  EXPECT_THAT(ptx, HasSubstr("add.rn.f16"));
  EXPECT_THAT(ptx, Not(HasSubstr("f32")));
}

// NVRTC 13.0 stored a register that nothing had written.
TEST_F(CudaText, a_zero_gets_its_sign_beside_a_remainder) {
  const std::string ptx = ptx_of(job_of(unary_body("signed_zero", R"(
    uint i = thread_position_in_grid.x;
    float a = x[i], b = x[i + 1], result = 0;
    float quotient = (a - metal::fmod(a, b)) / b;
    if (quotient == 0) result = metal::copysign(0.0f, a / b);
    else result = metal::floor(quotient);
    y[i] = result;
  )")));
  EXPECT_THAT(ptx, HasSubstr("-2147483648")) << ptx;
}

// Lanes that went around the ballot of a shuffle would be waited for forever.
TEST_F(CudaText, all_lanes_take_part_in_a_shuffle_whichever_lane_they_ask_for) {
  const auto branches = [](const std::string& value) {
    const std::string ptx = ptx_of(job_of(
        unary_body("shuffled", "uint i = thread_position_in_grid.x;\ny[i] = " + value + ";")));
    size_t count = 0;
    for (size_t at = ptx.find("bra"); at != ptx.npos; at = ptx.find("bra", at + 1)) ++count;
    return count;
  };
  const size_t without = branches("x[i]");
  for (const char* const value : {"simd_shuffle(x[i], i)", "simd_shuffle_up(x[i], 1)",
                                  "simd_shuffle_down(x[i], i)", "simd_shuffle_xor(x[i], 40)"}) {
    EXPECT_EQ(branches(value), without) << value;
  }
}

TEST_F(CudaText, atomics_are_those_of_the_gpu) {
  for (const auto& [dtype, instruction] :
       {std::pair{Dtype::float32, "add.f32"}, std::pair{Dtype::uint32, "add.u32"},
        std::pair{Dtype::int64, "add.u64"}, std::pair{Dtype::float64, "add.f64"}}) {
    KernelBody body =
        unary_body("sum", "atomic_fetch_add_explicit(&y[0], x[0], memory_order_relaxed);", dtype);
    body.definition.atomic_outputs = true;
    const std::string ptx = ptx_of(job_of(body));
    EXPECT_THAT(ptx, HasSubstr(instruction));
    EXPECT_THAT(ptx, Not(HasSubstr("cas")));
  }
}

TEST_F(CudaText, an_index_out_of_bounds_would_name_kernel_file_line_and_buffer) {
  KernelBody body = unary_body("checked", "\ny[3] = x[4];");
  body.definition.file = "my_file.metal";
  const std::string ptx = ptx_of(job_of(body, {.bounds = true}));
  const auto has_string = [&](std::string_view text) {
    std::string bytes;
    for (const char c : text) bytes += std::to_string(static_cast<int>(c)) + ", ";
    bytes.resize(bytes.size() - 2);
    return ptx.find(bytes) != ptx.npos;
  };
  EXPECT_TRUE(has_string("checked"));
  EXPECT_TRUE(has_string("my_file.metal"));
  EXPECT_THAT(job_of(body, {.bounds = true}).code.text,
              HasSubstr("hf_n0 / sizeof(const float), \"x\""));
}

TEST_F(CudaText, names_of_nvrtc_are_free_for_authors) {
  EXPECT_THAT(ptx_of(job_of(unary_body("own_names", R"(
    float4 v = make(x[0]);
    float warpSize2 = v.x;
    dim3_of_mine d = {1, 2};
    y[0] = warpSize2 + d.a;
  )",
                                       Dtype::float32, R"(
    struct dim3_of_mine { int a, b; };
    float4 make(float v) { return float4(v) * 2; }
  )"))),
              HasSubstr(".entry"));
}

TEST(CudaGolden, an_elementwise_kernel) {
  expect_golden("cuda_scale", job_of(unary_body("scale",
                                                "uint i = thread_position_in_grid.x;\n"
                                                "y[i] = x[i] * 2;"))
                                  .code);
}

KernelBody everything() {
  return {{.name = "everything",
           .inputs = {"x", "alpha"},
           .outputs = {"y"},
           .in_place = {"state"},
           .source = "threadgroup T tile[N];\n"
                     "uint i = thread_position_in_grid.x;\n"
                     "#if DEEP\n"
                     "tile[thread_index_in_threadgroup] = x[elem_to_loc(i, x_shape, x_strides, "
                     "x_ndim)];\n"
                     "#endif\n"
                     "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                     "atomic_fetch_add_explicit(&y[0], helper(tile[0]) * alpha + beta,\n"
                     "                          memory_order_relaxed);\n"
                     "state[i] = y_ndim;\n",
           .header = "inline float helper(float v) { return v * N; }\n",
           .atomic_outputs = true,
           .math = MathMode::fast,
           .file = "everything.metal"},
          {.inputs = {typed(Dtype::float16, 2), typed(Dtype::float32, 0)},
           .outputs = {typed(Dtype::float32)},
           .in_place = {typed(Dtype::int64)},
           .constants = {{"T", Dtype::float16}, {"N", int64_t{64}}, {"DEEP", true}},
           .params = {{"beta", Dtype::float32}, {"unused", Dtype::float64}}}};
}

TEST(CudaGolden, a_kernel_with_everything) {
  expect_golden("cuda_everything", job_of(everything()).code);
  expect_golden("cuda_everything_checked", job_of(everything(), {.bounds = true}).code);
}

TEST(CudaGolden, the_same_arguments_give_the_same_text) {
  for (const KernelBody& body : bodies_for_tests()) {
    const GeneratedKernel first = job_of(body).code;
    const GeneratedKernel second = job_of(body).code;
    EXPECT_EQ(first.text, second.text);
    EXPECT_EQ(first.preamble, second.preamble);
    EXPECT_EQ(first.entry_point, second.entry_point);
  }
}

TEST_F(CudaText, the_kernels_of_the_golden_texts_compile) {
  EXPECT_THAT(ptx_of(job_of(everything())), HasSubstr(".entry"));
  EXPECT_THAT(ptx_of(job_of(everything(), {.bounds = true})), HasSubstr(".entry"));
}

}  // namespace
}  // namespace holdfast::kernel
