#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;
using ::testing::ElementsAre;

// Conversions round to nearest even, towards zero where they end in integers, so that results are
// exactly what the host has. Numbers that all dtypes have are used where both are integers.
void expect_conversions(const std::vector<Dtype>& dtypes) {
  const std::vector<double> values{0, 1, 2.75, 3.0001, 100, 0.1, 127};
  std::vector<Array> results;
  std::vector<std::pair<Dtype, Dtype>> pairs;
  for (const Dtype from : dtypes) {
    for (const Dtype to : dtypes) {
      results.push_back(astype(array_of(values, {7}, from), to));
      pairs.emplace_back(from, to);
    }
  }
  eval(results);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [from, to] = pairs[i];
    std::vector<double> expected;
    for (const double v : values)
      expected.push_back(numeric::rounded(numeric::rounded(v, from), to));
    EXPECT_EQ(results[i].dtype(), to);
    EXPECT_EQ(values_of(results[i]), expected)
        << kernel::to_string(from) << " to " << kernel::to_string(to);
  }
}

TEST(Astype, converts_between_common_dtypes) {
  expect_conversions({bool_, int32, float16, bfloat16, float32});
}

TEST(AstypeNightly, converts_between_all_dtypes) {
  std::vector<Dtype> all;
  for (unsigned d = 0; d < kernel::kDtypes; ++d) all.push_back(static_cast<Dtype>(d));
  expect_conversions(all);
}

TEST(Astype, to_the_same_dtype_is_the_array_itself) {
  const Array x({1.0F, 2.0F}, {2});
  EXPECT_EQ(astype(x, float32).value(), x.value());
}

TEST(Astype, keeps_special_values_and_makes_nan_true) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Array x({kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -0.0F, 1e6F}, {5});
  for (const Dtype dtype : {float16, bfloat16, float64}) {
    const std::vector<double> v = values_of(astype(x, dtype));
    EXPECT_EQ(v[0], kInfinity);
    EXPECT_EQ(v[1], -kInfinity);
    EXPECT_TRUE(std::isnan(v[2]));
    EXPECT_TRUE(std::signbit(v[3]));
    EXPECT_EQ(v[4], numeric::rounded(1e6, dtype));  // float16 has nothing that large
  }
  EXPECT_THAT(values_of(astype(x, bool_)), ElementsAre(1, 1, 1, 0, 1));
  EXPECT_THAT(values_of(astype(Array({0.25F, -0.25F}, {2}), bool_)), ElementsAre(1, 1));
}

TEST(Astype, truncates_wraps_and_sign_extends_integers) {
  EXPECT_THAT(values_of(astype(Array({1.9F, -1.9F}, {2}), int32)), ElementsAre(1, -1));
  EXPECT_THAT(values_of(astype(Array({300, -1}, {2}), uint8)), ElementsAre(44, 255));
  EXPECT_THAT(values_of(astype(Array({int8_t{-1}}, {1}), int64)), ElementsAre(-1));
  EXPECT_EQ(astype(Array(int8_t{-1}), uint64).item<uint64_t>(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(astype(Array(std::numeric_limits<uint64_t>::max()), float32).item<float>(), 0x1p64F);
}

TEST(Astype, reads_any_layout) {
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back(i - 20);
  for (const numeric::Lie lie : numeric::kLies) {
    const Array x = numeric::laid_out(array_of(values, {3, 4, 5}, float32), lie);
    EXPECT_EQ(values_of(astype(x, int32)), values) << to_string(lie);
  }
  EXPECT_EQ(astype(Array(2.5F), float64).item<double>(), 2.5);
  EXPECT_EQ(astype(Array({1.0F}, {1, 1}), float16).shape(), (Shape{1, 1}));
  EXPECT_EQ(astype(array_of({}, {0, 3}, float32), int32).size(), 0);
}

}  // namespace
}  // namespace holdfast
