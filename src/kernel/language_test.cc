// The kernel language, executed on the CPU device: each test is a body and the numbers it gives.

#include <limits>

#include "holdfast/kernel/language_rig_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

using Language = LanguageTest;

TEST_F(Language, every_thread_has_its_place) {
  const std::vector<float> y = run({.body = R"(
uint3 p = thread_position_in_grid;
uint at = (p.z * grid_size.y + p.y) * threads_per_grid.x + p.x;
y[at * 4 + 0] = p.x + 10 * p.y + 100 * p.z;
uint3 groups = threadgroups_per_grid;
y[at * 4 + 1] = groups.x * 100 + groups.y * 10 + groups.z;
y[at * 4 + 2] = dispatch_threads_per_threadgroup.x + grid_origin.x;
y[at * 4 + 3] = threads_per_simdgroup + thread_execution_width +
                dispatch_simdgroups_per_threadgroup;
)",
                                    .outputs = 5 * 3 * 2 * 4,
                                    .grid = {5, 3, 2},
                                    .threadgroup = {2, 2, 1}});
  for (uint32_t z = 0; z < 2; ++z) {
    for (uint32_t row = 0; row < 3; ++row) {
      for (uint32_t column = 0; column < 5; ++column) {
        const size_t at = ((z * 3 + row) * 5 + column) * 4;
        EXPECT_EQ(y[at], static_cast<float>(column + 10 * row + 100 * z));
        EXPECT_EQ(y[at + 1], 322);
        EXPECT_EQ(y[at + 2], 2);
        EXPECT_EQ(y[at + 3], 65);
      }
    }
  }
}

TEST_F(Language, a_group_at_the_edge_is_smaller_and_positions_count_whole_groups) {
  const std::vector<float> y = run({.body = R"(
uint i = thread_position_in_grid.x;
y[i * 6 + 0] = thread_position_in_threadgroup.x;
y[i * 6 + 1] = threadgroup_position_in_grid.x;
y[i * 6 + 2] = threads_per_threadgroup.x;
y[i * 6 + 3] = thread_index_in_threadgroup;
y[i * 6 + 4] = simdgroup_index_in_threadgroup * 100 + thread_index_in_simdgroup;
y[i * 6 + 5] = simdgroups_per_threadgroup;
)",
                                    .outputs = 50 * 6,
                                    .grid = {50, 1, 1},
                                    .threadgroup = {40, 1, 1}});
  for (size_t i = 0; i < 50; ++i) {
    const auto in_group = static_cast<float>(i % 40);
    const std::vector<float> expected{in_group,
                                      i < 40 ? 0.0F : 1.0F,
                                      i < 40 ? 40.0F : 10.0F,
                                      in_group,
                                      i % 40 < 32 ? in_group : 100 + in_group - 32,
                                      i < 40 ? 2.0F : 1.0F};
    EXPECT_THAT(std::vector<float>(&y[i * 6], &y[i * 6] + 6), ElementsAreArray(expected)) << i;
  }
}

TEST_F(Language, constants_are_types_and_numbers_in_body_header_and_preprocessor) {
  const Call call{.body = R"(
T v = T(x[0]);
y[0] = sizeof(T) + doubled(v);
y[1] = N + half_of_n();
#if N > 4 && FLAG
y[2] = N;
#else
y[2] = -1;
#endif
y[3] = FLAG ? 1 : 2;
y[4] = BIG > 4000000000 ? 1 : 0;
y[5] = MINUS;
)",
                  .header = R"(
template <typename T> T doubled(T v) { return v + v; }
template <int N> int count() { return N; }
int half_of_n() { return N / 2; }
)",
                  .x = {3},
                  .outputs = 6,
                  .constants = {{"T", Dtype::float16},
                                {"N", int64_t{8}},
                                {"FLAG", true},
                                {"BIG", int64_t{5'000'000'000}},
                                {"MINUS", int64_t{-7}}}};
  EXPECT_THAT(run(call), ElementsAre(8, 12, 8, 1, 1, -7));
}

TEST_F(Language, params_are_values_of_every_type) {
  const Call call{.body = R"(
y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = f ? 1 : 0; y[6] = sizeof(d) + sizeof(g);
)",
                  .outputs = 7,
                  .params = {{"f", true},
                             {"a", 1.5F},
                             {"b", int32_t{-2}},
                             {"c", uint32_t{3}},
                             {"d", int64_t{-4}},
                             {"e", uint64_t{5}},
                             {"g", Scalar::of_float64(2)}}};
  EXPECT_THAT(run(call), ElementsAre(1.5F, -2, 3, -4, 5, 1, 16));
}

TEST_F(Language, every_dtype_is_read) {
  const std::vector<float> values{0, 1, 2, 100};
  for (unsigned i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const std::vector<float> expected =
        dtype == Dtype::bool_ ? std::vector<float>{0, 1, 1, 1} : values;
    EXPECT_EQ(run({.body = "uint i = thread_position_in_grid.x; y[i] = float(x[i]);",
                   .x = values,
                   .outputs = 4,
                   .dtype = dtype,
                   .grid = {4, 1, 1}}),
              expected)
        << to_string(dtype);
  }
}

TEST_F(Language, every_dtype_is_written) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  for (unsigned i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const TestArray x = array_of(*stream, std::vector<float>{0, 1, 100}, "x");
    const TestArray y = empty_array(*stream, dtype, 3, "y");
    const Kernel kernel(
        {.name = "cast",
         .inputs = {"x"},
         .outputs = {"y"},
         .source = "uint i = thread_position_in_grid.x; y[i] = static_cast<T>(x[i]);"});
    run_elementwise(rig, *stream, kernel, x, y, {{"T", dtype}});
    const std::vector<std::byte> expected = converted({0, 1, 100}, dtype);
    std::vector<std::byte> written(expected.size());
    stream->readback(y.memory, {}, written, testing::patient());
    EXPECT_EQ(written, expected) << to_string(dtype);
  }
}

TEST_F(Language, macros_of_the_author_stay_in_the_authors_text) {
  EXPECT_THAT(
      run({.body =
               "#define threads 3\n#if position == 2\ny[0] = threads + size + position;\n#endif",
           .header = "#define size 4\n#define begin size\n#define buffers size\n",
           .constants = {{"position", int64_t{2}}}}),
      ElementsAre(9));
}

TEST_F(Language, bfloat_rounds_to_nearest_even_and_converts_both_ways) {
  const Call call{.body = R"(
bfloat a = 1.0f;
bfloat b = a + 0.00390625f;          // half a place: to even, down
bfloat c = bfloat(1.0078125f) + 0.00390625f;  // half a place: to even, up
y[0] = float(b); y[1] = c; y[2] = bfloat(3.0f) * x[0];
a += 2; a *= 3; a -= 1; a /= 2;
y[3] = a;
y[4] = as_type<ushort>(bfloat(1.0f));
y[5] = isnan(bfloat(NAN)) ? 1 : 0;
y[6] = float(bfloat(INFINITY)) > 1e38f ? 1 : 0;
bfloat table[2] = {1, 2.5};
y[7] = max(table[0], table[1]);
y[8] = x[0] < table[1] ? 1 : 0;
y[9] = exp(bfloat(0));
y[10] = int(table[1]);
half h = half(table[1]);
y[11] = h;
bfloat16_t d = x[0];
d = 7;
y[12] = d;
)",
                  .x = {2},
                  .outputs = 13,
                  .dtype = Dtype::bfloat16};
  EXPECT_THAT(run(call), ElementsAre(1, 1.015625F, 6, 4, 0x3f80, 1, 1, 2.5F, 1, 1, 2, 2.5F, 7));
}

TEST_F(Language, half_is_a_number_of_two_bytes) {
  const Call call{.body = R"(
half a = x[0];
half b = a * half(3) + 1;
y[0] = b; y[1] = sizeof(half); y[2] = sqrt(half(16)); y[3] = float(half(1.0f / 3));
y[4] = as_type<half>(ushort(0x3c00)); y[5] = HALF_MAX; y[6] = i_am(b);
)",
                  .header = "half i_am(half v) { return v; }",
                  .x = {2},
                  .outputs = 7,
                  .dtype = Dtype::float16};
  EXPECT_THAT(run(call), ElementsAre(7, 2, 4, 0.33325195F, 1, 65504, 7));
}

TEST_F(Language, a_choice_between_half_and_float_is_a_float) {
  if (world.is_left_to_the_cpu("the two have one type in CUDA: docs/kernels.md")) {
    GTEST_SKIP() << world.skipped();
  }
  EXPECT_THAT(run({.body = "half a = x[0];\ny[0] = a > 1 ? a : 0.0f;", .x = {2}}), ElementsAre(2));
}

TEST_F(Language, shapes_strides_and_dimensions_are_there_where_the_body_names_them) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const TestArray x = array_of(*stream, iota(12), "x");
  const TestArray y = array_of(*stream, std::vector<float>(12), "y");
  const Kernel kernel({.name = "transpose", .inputs = {"inp"}, .outputs = {"out"}, .source = R"(
uint elem = thread_position_in_grid.x;
auto loc = elem_to_loc(elem, inp_shape, inp_strides, inp_ndim);
out[elem] = inp[loc] + 100 * inp_shape[1] + 1000 * out_ndim;
)"});
  const std::array<int64_t, 2> shape{4, 3};
  const std::array<int64_t, 2> strides{1, 4};
  const std::array inputs{ArrayRef{x.memory, Dtype::float32, shape, strides}};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, kernel, {.inputs = inputs, .outputs = outputs, .grid = {12, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y),
              ElementsAre(1300, 1304, 1308, 1301, 1305, 1309, 1302, 1306, 1310, 1303, 1307, 1311));
}

TEST_F(Language, an_input_without_dimensions_is_a_plain_value) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const TestArray scale = array_of(*stream, std::vector<float>{2.5F}, "scale");
  const TestArray y = array_of(*stream, std::vector<float>(3), "y");
  const Kernel kernel({.name = "scaled",
                       .inputs = {"scale"},
                       .outputs = {"y"},
                       .source = "uint i = thread_position_in_grid.x; y[i] = scale * i;"});
  const std::array inputs{ArrayRef{scale.memory, Dtype::float32, {}}};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, kernel, {.inputs = inputs, .outputs = outputs, .grid = {3, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(0, 2.5F, 5));
}

TEST_F(Language, pointers_into_buffers_early_returns_and_templates) {
  const Call call{.body = R"(
uint i = thread_position_in_grid.x;
if (i >= 4) return;
auto x_ = x + 4 * i;
const device float* row = x + i;
float acc[4] = {0, 0, 0, 0};
for (int k = 0; k < 4; ++k) acc[k] += x_[k];
y[i] = acc[0] + total<float, 4>(acc) + row[0] + at(x, i) + *x_ + static_cast<int>(1.9);
)",
                  .header = R"(
template <typename T, int N> T total(const thread T* v) {
  T sum = 0;
  for (int i = 0; i < N; ++i) sum += v[i];
  return sum;
}
template <typename T> T at(const device T* p, uint i) { return p[i]; }
struct Pair { float x, y; };
constant float table[2] = {1, 2};
)",
                  .x = iota(16),
                  .outputs = 4,
                  .grid = {9, 1, 1}};
  for (const bool bounds : {false, true}) {
    Call checked = call;
    checked.bounds = bounds;
    EXPECT_THAT(run(checked), ElementsAre(7, 33, 59, 85)) << bounds;
  }
}

TEST_F(Language, fast_math_is_visible) {
  const std::string body = R"(
#ifdef __FAST_MATH__
y[0] = 1;
#else
y[0] = 2;
#endif
)";
  EXPECT_THAT(run({.body = body, .math = MathMode::fast}), ElementsAre(1));
  EXPECT_THAT(run({.body = body}), ElementsAre(2));
}

TEST_F(Language, pragmas_that_forbid_fused_products_are_honoured) {
  // The square's last bits are lost where it is rounded before the difference.
  const Call call{.body = "y[0] = x[0] * x[0] - x[1];", .x = {1 + 0x1p-12F, 1 + 0x1p-11F}};
  for (const char* pragma : {"#pragma clang fp contract(off)", "#pragma METAL fp contract(off)",
                             "#pragma METAL fp math_mode(safe)", "#pragma STDC FP_CONTRACT OFF",
                             "#  pragma clang fp reassociate(off) \\\n contract(off)",
                             "_Pragma(\"clang fp contract(off)\")"}) {
    Call in_body = call;
    in_body.body = std::string(pragma) + "\n" + call.body;
    EXPECT_THAT(run(in_body), ElementsAre(0)) << pragma;
    Call in_header = call;
    in_header.header = std::string(pragma) + "\n";
    EXPECT_THAT(run(in_header), ElementsAre(0)) << pragma;
  }
}

TEST_F(Language, a_text_that_asks_for_safe_math_is_not_compiled_with_fast_math) {
  const Call call{.body = R"(
#pragma METAL fp math_mode(safe)
#ifdef __FAST_MATH__
y[0] = 1;
#else
y[0] = x[0] != x[0] ? 3 : 2;
#endif
)",
                  .x = {std::numeric_limits<float>::quiet_NaN()},
                  .math = MathMode::fast};
  EXPECT_THAT(run(call), ElementsAre(3));
}

TEST_F(Language, a_constant_that_nothing_uses_changes_nothing) {
  EXPECT_THAT(
      run({.body = "y[0] = N;", .constants = {{"N", 3}, {"UNUSED", 4}, {"U", Dtype::int8}}}),
      ElementsAre(3));
}

TEST_F(Language, the_larger_of_a_half_and_zero_is_taken_of_each_element) {
  const std::vector<float> x = iota(100, -50);
  std::vector<float> expected;
  for (const float v : x) expected.push_back(v > 0 ? v : 0);
  EXPECT_EQ(run({.body = "uint i = thread_position_in_grid.x; y[i] = x[i] > T(0) ? x[i] : T(0);",
                 .x = x,
                 .outputs = 100,
                 .dtype = Dtype::float16,
                 .grid = {100, 1, 1},
                 .constants = {{"T", Dtype::float16}}}),
            expected);
}

}  // namespace
}  // namespace holdfast::kernel
