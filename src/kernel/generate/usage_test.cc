#include "holdfast/kernel/generate/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/generate/bodies_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Usage usage_of_body(std::string source, std::string header = {}) {
  const KernelBody body = unary_body("body", std::move(source), Dtype::float32, std::move(header));
  return usage_of(body.definition, body.signature);
}

TEST(Usage, arguments_are_inputs_in_place_outputs) {
  Definition definition{.name = "k",
                        .inputs = {"a", "b"},
                        .outputs = {"d"},
                        .in_place = {"c"},
                        .source = "d_shape[0] + a_ndim + c_strides[1] + x.b_shape"};
  const CallSignature signature{.inputs = {{Dtype::float16, 2}, {Dtype::float32, 0}},
                                .outputs = {{Dtype::float32, 0}},
                                .in_place = {{Dtype::int8, 3}}};
  Usage usage = usage_of(definition, signature);
  ASSERT_EQ(usage.arguments.size(), 4U);
  EXPECT_EQ(usage.arguments[0].name, "a");
  EXPECT_TRUE(usage.arguments[0].ndim);
  EXPECT_FALSE(usage.arguments[0].scalar);
  EXPECT_TRUE(usage.arguments[1].scalar);
  EXPECT_FALSE(usage.arguments[1].shape) << "a member of that name is not the shape";
  EXPECT_EQ(usage.arguments[2].binding,
            (BindingUse{ArgumentGroup::in_place, 0, hal::Access::read_write}));
  EXPECT_TRUE(usage.arguments[2].strides);
  EXPECT_EQ(usage.arguments[3].binding, (BindingUse{ArgumentGroup::output, 0, hal::Access::write}));
  EXPECT_TRUE(usage.arguments[3].shape);
  EXPECT_FALSE(usage.arguments[3].scalar) << "only inputs are values";

  definition.atomic_outputs = true;
  usage = usage_of(definition, signature);
  EXPECT_TRUE(usage.arguments[3].atomic);
  EXPECT_FALSE(usage.arguments[2].atomic);
  EXPECT_EQ(usage.arguments[3].binding.access, hal::Access::read_write)
      << "it adds to what is there";
}

TEST(Usage, the_header_counts_as_well) {
  const Usage usage = usage_of_body("y[0] = 1;", "#define ROWS x_shape[0]\n");
  EXPECT_TRUE(usage.arguments[0].shape);
}

TEST(Usage, comments_and_literals_do_not_count) {
  const Usage usage = usage_of_body("y[0] = 1; // x_shape simd_sum\nprintf(\"float4 v.xy\");");
  EXPECT_FALSE(usage.arguments[0].shape);
  EXPECT_EQ(usage.cooperation, Cooperation::none);
  EXPECT_THAT(usage.vector_types, IsEmpty());
  EXPECT_THAT(usage.swizzles, IsEmpty());
}

TEST(Usage, cooperation_follows_from_what_the_text_asks_for) {
  EXPECT_EQ(usage_of_body("thread_position_in_grid.x").cooperation, Cooperation::none);
  EXPECT_EQ(usage_of_body("threads_per_grid.x").cooperation, Cooperation::none);
  EXPECT_EQ(usage_of_body("thread_index_in_simdgroup").cooperation, Cooperation::groups);
  EXPECT_EQ(usage_of_body("threads_per_threadgroup").cooperation, Cooperation::groups);
  EXPECT_EQ(usage_of_body("threadgroup float t[4];").cooperation, Cooperation::groups);
  EXPECT_EQ(usage_of_body("simd_sum(1)").cooperation, Cooperation::barriers);
  EXPECT_EQ(usage_of_body("metal::simd_shuffle_down(1, 2)").cooperation, Cooperation::barriers);
  EXPECT_EQ(
      usage_of_body("f()", "void f() { threadgroup_barrier(mem_flags::mem_none); }").cooperation,
      Cooperation::barriers);
  EXPECT_EQ(usage_of_body("int simd_width = 4;").cooperation, Cooperation::none);
}

TEST(Usage, places_vectors_and_swizzles_are_those_of_the_text) {
  const Usage usage = usage_of_body(
      "uint3 p = thread_position_in_grid; half4 h; h.rgb = v.xyz; s.xr; q.w; q.a; q.float2x; int5 "
      "n; "
      "threads_per_grid");
  EXPECT_THAT(usage.places, ElementsAre("thread_position_in_grid", "threads_per_grid"));
  EXPECT_THAT(usage.vector_types, ElementsAre("half4", "uint3"));
  EXPECT_THAT(usage.swizzles, ElementsAre("a", "rgb", "xyz"));
}

TEST(Usage, constants_on_preprocessor_lines_become_macros) {
  Definition definition{.name = "k",
                        .outputs = {"y"},
                        .source = "#if N > 2\n#endif\nM; #define A(v) T(v)\n",
                        .header = "#if DEEP\n#endif\n#define TWICE (HALF_N * 2)\n"};
  const CallSignature signature{.outputs = {{}},
                                .constants = {{"N", int64_t{1}},
                                              {"M", int64_t{2}},
                                              {"DEEP", true},
                                              {"HALF_N", int64_t{-3}},
                                              {"T", Dtype::float16}}};
  const Usage usage = usage_of(definition, signature);
  EXPECT_THAT(usage.macro_constants, ElementsAre("DEEP", "HALF_N", "N"));
  EXPECT_THAT(usage.header_macro_constants, ElementsAre("DEEP"));
  EXPECT_EQ(constant_macros(usage, signature, true), "#define DEEP true\n");
  EXPECT_EQ(constant_macros(usage, signature, false), "#define N 1\n#define HALF_N (-3)\n");
  EXPECT_EQ(constant_declarations(usage, signature),
            "constexpr int N = 1;\nconstexpr int M = 2;\nconstexpr int HALF_N = (-3);\n"
            "using T = half;\n");
}

TEST(Usage, numbers_keep_their_value_at_the_ends_of_their_types) {
  const auto declared = [](int64_t value) {
    return constant_declarations({}, {.constants = {{"N", value}}});
  };
  EXPECT_EQ(declared(INT32_MAX), "constexpr int N = 2147483647;\n");
  EXPECT_EQ(declared(int64_t{INT32_MAX} + 1), "constexpr long N = 2147483648L;\n");
  EXPECT_EQ(declared(INT32_MIN), "constexpr int N = (-2147483648L);\n");
  EXPECT_EQ(declared(INT64_MIN), "constexpr long N = (-9223372036854775807L - 1);\n");
}

TEST(Usage, what_goes_to_a_template_of_the_header_is_known) {
  const Usage usage = usage_of_body("y[0] = first(x + 1, y[0]);",
                                    "template <typename T, int N = 1> T first(const T* p, T v);");
  EXPECT_TRUE(usage.arguments[0].passed_to_template);
  EXPECT_FALSE(usage.arguments[1].passed_to_template);
  EXPECT_FALSE(
      usage_of_body("plain(x);", "void plain(const float* p);").arguments[0].passed_to_template);
}

TEST(Interface, fields_lie_after_the_launch_block_each_aligned) {
  const Definition definition{
      .name = "k", .inputs = {"x"}, .outputs = {"y"}, .source = "x_shape y_strides x_ndim a b c"};
  const CallSignature signature{
      .inputs = {{Dtype::float32, 3}},
      .outputs = {{Dtype::float32, 2}},
      .params = {{"a", Dtype::bool_}, {"b", Dtype::float64}, {"c", Dtype::float16}}};
  const Interface interface = interface_of(usage_of(definition, signature), signature);
  const std::vector<ParameterField> expected{
      {FieldKind::shape, 0, 3, 56_B, 12_B}, {FieldKind::strides, 1, 2, 72_B, 16_B},
      {FieldKind::param, 0, 1, 88_B, 1_B},  {FieldKind::param, 1, 1, 96_B, 8_B},
      {FieldKind::param, 2, 1, 104_B, 2_B},
  };
  EXPECT_EQ(interface.fields, expected);
  EXPECT_EQ(interface.parameter_bytes, 112_B);
  EXPECT_TRUE(interface.has_launch_block);
  EXPECT_EQ(interface.bindings.size(), 2U);
}

}  // namespace
}  // namespace holdfast::kernel
