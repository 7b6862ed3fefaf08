// Numbers beside arrays, integers at their limits, special values, and whose memory results take.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

TEST(ElementwiseNumbers, take_the_dtype_of_the_arrays_unless_they_are_of_a_higher_kind) {
  const auto dtype_with = [](Dtype dtype, const Term& number) {
    return add(array_of({1}, {1}, dtype), number).dtype();
  };
  EXPECT_EQ(dtype_with(float16, 2.0F), float16);
  EXPECT_EQ(dtype_with(bfloat16, 2.0), bfloat16);
  EXPECT_EQ(dtype_with(float64, 2.0F), float64);
  EXPECT_EQ(dtype_with(float16, 2), float16);
  EXPECT_EQ(dtype_with(uint8, 2), uint8);
  EXPECT_EQ(dtype_with(uint8, true), uint8);
  EXPECT_EQ(dtype_with(uint8, 2.5F), float32);
  EXPECT_EQ(dtype_with(bool_, 2), int32);
  EXPECT_EQ(dtype_with(bool_, 0.5F), float32);
  EXPECT_EQ(dtype_with(bool_, true), bool_);
  EXPECT_EQ(add(1, 2).dtype(), int32);
  EXPECT_EQ(add(1, 2.5).dtype(), float32);
  const Array truth({true, false}, {2});
  EXPECT_EQ(where(truth, 1, 0.5F).dtype(), float32);
  EXPECT_EQ(where(truth, Array(Float16(1.0F)), 0.5F).dtype(), float16);
}

TEST(ElementwiseNumbers, stand_on_either_side_and_alone) {
  const Array x({1.0F, 2.0F}, {2});
  EXPECT_THAT(values_of(x - 3.0F), ElementsAre(-2, -1));
  EXPECT_THAT(values_of(3.0F - x), ElementsAre(2, 1));
  EXPECT_THAT(values_of(Array({1, 5}, {2}) * 0.5), ElementsAre(0.5, 2.5));
  EXPECT_EQ(add(1, 2).item<int32_t>(), 3);
  EXPECT_EQ(add(1, 2).ndim(), 0U);
  EXPECT_THAT(values_of(where(Array({true, false}, {2}), 1, 0.5F)), ElementsAre(1, 0.5));
  EXPECT_THAT(values_of(clip(Array({-4, 2, 9}, {3}), 0, 5)), ElementsAre(0, 2, 5));
  EXPECT_THAT(values_of(where(x, x, 0.0F)), ElementsAre(1, 2));
}

TEST(ElementwiseNumbers, are_rounded_as_an_array_of_their_dtype_would_be) {
  const Array tenth(Float16(0.1F));
  EXPECT_TRUE((tenth == 0.1F).item<bool>());
  EXPECT_EQ((tenth - 0.1F).item<Float16>().bits, 0);
  EXPECT_TRUE((Array(BFloat16(0.1F)) == 0.1F).item<bool>());
  EXPECT_TRUE((Array(0.1F) == 0.1).item<bool>());
  EXPECT_TRUE((Array(0.1) == 0.1).item<bool>());
}

TEST(ElementwiseNumbers, wrap_around_in_arithmetic_and_are_real_in_comparisons) {
  const Array x({uint8_t{0}, uint8_t{44}, uint8_t{255}}, {3});
  EXPECT_THAT(values_of(x + 300), ElementsAre(44, 88, 43));
  EXPECT_THAT(values_of(x < 300), ElementsAre(1, 1, 1));
  EXPECT_THAT(values_of(x == -1), ElementsAre(0, 0, 0));
  EXPECT_THAT(values_of(x > -1), ElementsAre(1, 1, 1));
  EXPECT_THAT(values_of(Array({kLeast, kMost}, {2}) < int64_t{1} << 40), ElementsAre(1, 1));
}

TEST(ElementwiseNumbers, need_no_new_kernel) {
  const Array x({1.0F, 2.0F}, {2});
  eval(x + 1.25F);
  const uint64_t before = stats().kernels.misses;
  EXPECT_THAT(values_of(x + 7.5F), ElementsAre(8.5, 9.5));
  EXPECT_EQ(stats().kernels.misses, before);
}

TEST(ElementwiseIntegers, divide_as_python_does_and_by_zero_give_zero) {
  const Array a({7, -7, 7, -7, 5, kLeast, kLeast, 0}, {8});
  const Array b({2, 2, -2, -2, 0, -1, 0, -3}, {8});
  EXPECT_THAT((floor_divide(a, b).to_vector<int32_t>()),
              ElementsAre(3, -4, -4, 3, 0, kLeast, 0, 0));
  EXPECT_THAT((remainder(a, b).to_vector<int32_t>()), ElementsAre(1, 1, -1, -1, 0, 0, 0, 0));
  EXPECT_THAT(values_of(floor_divide(Array({uint8_t{200}, uint8_t{255}}, {2}),
                                     Array({uint8_t{7}, uint8_t{0}}, {2}))),
              ElementsAre(28, 0));
  EXPECT_THAT(values_of(floor_divide(Array(std::numeric_limits<int64_t>::min()), -1)),
              ElementsAre(-0x1p63));
  EXPECT_THAT(values_of(remainder(Array(int8_t{-128}), -1)), ElementsAre(0));
}

TEST(ElementwiseIntegers, have_powers_by_squaring) {
  const Array a({2, -3, 2, 1, -1, -1, 0, 0, 3}, {9});
  const Array b({10, 3, -1, -5, -3, -4, 0, -1, 40}, {9});
  uint32_t wrapped = 1;
  for (int i = 0; i < 40; ++i) wrapped *= 3;
  EXPECT_THAT((power(a, b).to_vector<int32_t>()),
              ElementsAre(1024, -27, 0, 1, -1, 1, 1, 0, static_cast<int32_t>(wrapped)));
  EXPECT_EQ(power(Array(uint64_t{3}), 40).item<uint64_t>(), 12157665459056928801U);
}

TEST(ElementwiseIntegers, wrap_around_at_their_limits) {
  const Array limits({kLeast, kMost}, {2});
  EXPECT_THAT((limits + 1).to_vector<int32_t>(), ElementsAre(kLeast + 1, kLeast));
  EXPECT_THAT((limits - 1).to_vector<int32_t>(), ElementsAre(kMost, kMost - 1));
  EXPECT_THAT((limits * 2).to_vector<int32_t>(), ElementsAre(0, -2));
  EXPECT_THAT(square(limits).to_vector<int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT((-limits).to_vector<int32_t>(), ElementsAre(kLeast, -kMost));
  EXPECT_THAT(abs(limits).to_vector<int32_t>(), ElementsAre(kLeast, kMost));
  EXPECT_THAT(values_of(-Array({uint8_t{1}, uint8_t{0}}, {2})), ElementsAre(255, 0));
  EXPECT_THAT(values_of(square(Array(uint16_t{65535}))), ElementsAre(1));
  // A float would not have them all.
  const Array wide({(int64_t{1} << 53) + 1, std::numeric_limits<int64_t>::max()}, {2});
  EXPECT_THAT((wide + 1).to_vector<int64_t>(),
              ElementsAre((int64_t{1} << 53) + 2, std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(values_of(wide == (int64_t{1} << 53)), ElementsAre(0, 0));
}

TEST(ElementwiseIntegers, of_bool_have_or_and_xor) {
  const Array a({false, false, true, true}, {4});
  const Array b({false, true, false, true}, {4});
  EXPECT_THAT(values_of(a + b), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values_of(a * b), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values_of(a - b), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(values_of(a + b == b), ElementsAre(1, 1, 0, 1));
}

TEST(ElementwiseSpecials, nan_wins_and_is_found) {
  const Array a({kNan, 1.0F, kNan, -kInfinity}, {4});
  const Array b({2.0F, kNan, kNan, 3.0F}, {4});
  const auto nan = [](bool is) {
    return ::testing::Truly([is](double v) { return std::isnan(v) == is; });
  };
  for (const Array& result : {maximum(a, b), minimum(a, b), clip(a, b, 5.0F), clip(a, 0.0F, b)}) {
    EXPECT_THAT(values_of(result), ElementsAre(nan(true), nan(true), nan(true), nan(false)));
  }
  EXPECT_THAT(values_of(isnan(a)), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(values_of(isnan(astype(a, float16))), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(values_of(isnan(astype(a, bfloat16))), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(values_of(isnan(Array({1, 2}, {2}))), ElementsAre(0, 0));
  EXPECT_THAT(values_of(a == a), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(values_of(a != a), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(values_of(logical_not(a)), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(values_of(logical_and(a, b)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(values_of(sign(a)), ElementsAre(nan(true), 1, nan(true), -1));
}

TEST(ElementwiseSpecials, zeros_keep_their_sign) {
  const Array zeros_of_both({0.0F, -0.0F}, {2});
  const auto signs = [](const Array& a) {
    std::vector<bool> all;
    for (const double v : values_of(a)) all.push_back(std::signbit(v));
    return all;
  };
  EXPECT_THAT(signs(-zeros_of_both), ElementsAre(true, false));
  EXPECT_THAT(signs(abs(zeros_of_both)), ElementsAre(false, false));
  EXPECT_THAT(signs(round(Array({0.4F, -0.4F}, {2}))), ElementsAre(false, true));
  EXPECT_THAT(signs(remainder(Array({4.0F, 4.0F}, {2}), Array({2.0F, -2.0F}, {2}))),
              ElementsAre(false, true));
  EXPECT_THAT(signs(-astype(zeros_of_both, float16)), ElementsAre(true, false));
  EXPECT_THAT(values_of(1.0F / zeros_of_both), ElementsAre(kInfinity, -kInfinity));
}

TEST(ElementwiseSpecials, infinities_and_limits_are_as_ieee_says) {
  EXPECT_THAT(values_of(exp(Array({kInfinity, -kInfinity, 1000.0F}, {3}))),
              ElementsAre(kInfinity, 0, kInfinity));
  EXPECT_THAT(values_of(log(Array({0.0F, kInfinity}, {2}))), ElementsAre(-kInfinity, kInfinity));
  EXPECT_THAT(values_of(sigmoid(Array({-1000.0F, 0.0F, 1000.0F}, {3}))), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(values_of(tanh(Array({-kInfinity, kInfinity}, {2}))), ElementsAre(-1, 1));
  EXPECT_THAT(values_of(round(Array({0.5F, 1.5F, 2.5F, -0.5F}, {4}))), ElementsAre(0, 2, 2, 0));
  // 6 / 0.1 rounds to 60, but 0.1 is more than a tenth.
  EXPECT_THAT(values_of(floor_divide(Array({6.0, -1.0, 1.0}, {3}),
                                     Array({0.1, kInfinity * 1.0, 0.0}, {3}))),
              ElementsAre(59, -1, kInfinity));
  // Computed in float32, rounded once: the sum is too large for float16, its half is not.
  EXPECT_THAT(values_of(Array(Float16(60000.0F)) + 60000.0F), ElementsAre(kInfinity));
}

// Whose memory a result takes.
struct ElementwiseMemory : ::testing::Test {
  // Nobody but the caller has it.
  static Array fresh(float first = 1, int64_t rows = 4) {
    std::vector<double> values;
    for (int64_t i = 0; i < rows * rows; ++i) values.push_back(first + static_cast<double>(i));
    return array_of(values, {rows, rows}, float32);
  }
  static uint64_t donated_by(const Array& result) {
    const uint64_t before = stats().donated;
    eval(result);
    return stats().donated - before;
  }
  // Temporaries of the expression are gone when it is evaluated.
  static uint64_t donated_by(const std::function<Array()>& expression) {
    return donated_by(expression());
  }
};

TEST_F(ElementwiseMemory, of_an_operand_that_nobody_else_sees_is_taken) {
  const Array kept = fresh();
  EXPECT_EQ(donated_by([&] { return fresh() + 1.0F; }), 1U);
  EXPECT_EQ(donated_by([&] { return kept + fresh(); }), 1U);
  EXPECT_EQ(donated_by([&] { return fresh() + kept; }), 1U);
  EXPECT_EQ(donated_by([&] { return exp(square(kept) + kept); }), 2U);
  EXPECT_EQ(donated_by([&] { return where(kept > 3.0F, kept, fresh()); }), 1U);
  // Also beside operands that are broadcast.
  const Array row({1.0F, 2.0F, 3.0F, 4.0F}, {4});
  const Array shifted = fresh() + row;
  EXPECT_EQ(donated_by(shifted), 1U);
  EXPECT_EQ(values_of(shifted), values_of(kept + row));
}

TEST_F(ElementwiseMemory, of_an_operand_that_others_see_is_not) {
  const Array kept = fresh();
  const std::vector<double> before = values_of(kept);
  EXPECT_EQ(donated_by([&] { return kept + 1.0F; }), 0U);
  Array copy = kept;
  EXPECT_EQ(donated_by([&] { return std::move(copy) * 2.0F; }), 0U);
  Array owner = fresh();
  const Array view = transpose(owner);
  Array result = owner - 1.0F;
  owner = Array();
  EXPECT_EQ(donated_by(result), 0U);
  EXPECT_EQ(values_of(transpose(view)), before);
  // Another node that has not run yet needs it.
  Array shared = fresh();
  const Array first = shared + 1.0F;
  const Array second = shared * 3.0F;
  shared = Array();
  const uint64_t donated = stats().donated;
  eval(first);
  EXPECT_EQ(stats().donated, donated);
  eval(second);
  EXPECT_EQ(stats().donated, donated + 1);
  EXPECT_EQ(values_of(second)[5], 3 * before[5]);
  EXPECT_EQ(values_of(kept), before);
}

TEST_F(ElementwiseMemory, of_another_dtype_or_shape_is_not_taken) {
  EXPECT_EQ(donated_by([&] { return fresh() > 1.0F; }), 0U);
  EXPECT_EQ(donated_by([&] { return Array({1, 2}, {2}) + 0.5F; }), 0U);
  EXPECT_EQ(donated_by([&] { return Array({1.0F, 2.0F}, {2}) + Array({1, 2}, {2, 1}); }), 0U);
  EXPECT_EQ(donated_by([&] { return transpose(fresh()) + 1.0F; }), 0U);
}

TEST_F(ElementwiseMemory, of_an_array_that_is_both_operands_is_taken_and_read_right) {
  Array x = fresh();
  const std::vector<double> before = values_of(x);
  const Array twice = x + x;
  x = Array();
  EXPECT_EQ(donated_by(twice), 1U);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(values_of(twice)[i], 2 * before[i]);
}

TEST_F(ElementwiseMemory, of_an_array_that_is_read_through_two_layouts_is_not_taken) {
  // Large enough for several groups, so that elements would be replaced before they are read.
  Array x = fresh(1, 64);
  const Array by_hand = x + contiguous(transpose(x));
  const std::vector<double> expected = values_of(by_hand);
  const Array both = x + transpose(x);
  const Array upside_down = x + slice(x, {{.step = -1}});
  const Array rows = x + index(x, 1);
  x = Array();
  eval(upside_down, rows);
  EXPECT_EQ(donated_by(both), 0U);
  EXPECT_EQ(values_of(both), expected);
  EXPECT_EQ(values_of(rows)[0], 1 + 65);
  EXPECT_EQ(values_of(upside_down)[0], 1 + 63 * 64 + 1);
}

TEST(ElementwiseErrors, name_the_shapes_that_do_not_fit) {
  const Array a = zeros({2, 3});
  const Array b = zeros({4});
  try {
    (void)(a + b);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("(2, 3)"), HasSubstr("(4,)")));
  }
  EXPECT_THROW((void)(a + Array()), UsageError);
  EXPECT_THROW((void)exp(Array()), UsageError);
}

}  // namespace
}  // namespace holdfast
