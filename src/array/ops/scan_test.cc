#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "holdfast/array/ops/axis_test.h"
#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/scans.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ScanTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, ScanTest, both_styles(), style_name);

// Small whole numbers, whose sums are exact in every dtype that is used here.
std::vector<double> scannable_values(int64_t count, Dtype dtype) {
  std::mt19937 random(7);
  const bool has_sign = is_floating(dtype) || is_signed_integer(dtype);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    v = static_cast<double>(random() % 3) - (has_sign ? 1 : 0);
    if (dtype == bool_) v = v > 0 ? 1 : 0;
  }
  return values;
}

void check_sums(const Shape& shape, int64_t axis, Dtype dtype, Lie lie, const Scan& how = {}) {
  const std::vector<double> values = scannable_values(elements(shape), dtype);
  std::vector<double> wanted(values.size());
  for (auto row : numeric::rows_along(shape, axis)) {
    if (how.reverse) std::ranges::reverse(row);
    double sum = 0;
    for (const size_t i : row) {
      const double before = sum;
      sum += values[i];
      wanted[i] = how.inclusive ? sum : before;
    }
  }
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  EXPECT_EQ(values_of(cumsum(a, axis, how)), wanted)
      << to_string(dtype) << to_string(shape) << " along " << axis << " " << numeric::to_string(lie)
      << (how.reverse ? " reverse" : "") << (how.inclusive ? "" : " exclusive");
}

TEST_P(ScanTest, sums_agree_with_a_plain_loop) {
  for (const bool reverse : {false, true}) {
    for (const bool inclusive : {false, true}) {
      const Scan how{reverse, inclusive};
      check_sums({5, 3000}, 1, float32, Lie::contiguous, how);
      check_sums({2, 20'001}, 1, float32, Lie::contiguous, how);
      check_sums({700, 41}, 0, float32, Lie::contiguous, how);
      check_sums({20'001, 9}, 0, float32, Lie::contiguous, how);
      check_sums({4, 33, 5}, 1, float32, Lie::reversed, how);
      check_sums({6, 90}, 1, float32, Lie::transposed, how);
    }
  }
}

// Around the numbers of elements that threads, simdgroups and threadgroups have.
TEST_P(ScanTest, rows_and_columns_of_any_number_agree) {
  for (const int64_t n : {1, 2, 31, 32, 33, 128, 129, 1023, 1024, 1025, 8192, 16'385}) {
    check_sums({3, n}, 1, float32, Lie::contiguous);
    check_sums({n}, 0, float32, Lie::spread);
  }
  for (const int64_t wide : {1, 7, 8, 31, 32, 33, 100}) {
    check_sums({50, wide}, 0, float32, Lie::contiguous);
    check_sums({2, 40, wide}, 1, float32, Lie::offset);
  }
}

TEST(Scan, dtypes_are_summed_in_those_of_sum) {
  for (const Dtype dtype : {bool_, int8, uint64, bfloat16}) {
    check_sums({3, 100}, 1, dtype, Lie::contiguous);
  }
  EXPECT_EQ(cumsum(zeros({3}, bool_)).dtype(), int32);
  EXPECT_EQ(cumsum(zeros({3}, int8)).dtype(), int32);
  EXPECT_EQ(cumsum(zeros({3}, uint16)).dtype(), uint32);
  EXPECT_EQ(cumsum(zeros({3}, int64)).dtype(), int64);
  EXPECT_EQ(cumprod(zeros({3}, float16)).dtype(), float16);
}

TEST_P(ScanTest, nightly_all_dtypes_axes_and_layouts) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      for (const int64_t axis : {0, 1, 2}) {
        check_sums({9, 40, 33}, axis, static_cast<Dtype>(d), lie, {.reverse = axis == 1});
      }
      check_sums({2, 20'000}, 1, static_cast<Dtype>(d), lie);
    }
  }
}

TEST_P(ScanTest, products_are_scanned_too) {
  EXPECT_THAT(cumprod(Array({1, 2, 3, 4}, {4})).to_vector<int32_t>(), ElementsAre(1, 2, 6, 24));
  EXPECT_THAT(cumprod(Array({1, 2, 3, 4}, {4}), 0, {.inclusive = false}).to_vector<int32_t>(),
              ElementsAre(1, 1, 2, 6));
  EXPECT_THAT(cumprod(Array({1, 2, 3, 4}, {4}), -1, {.reverse = true}).to_vector<int32_t>(),
              ElementsAre(24, 24, 12, 4));
  // Signs alone: exact, however long.
  std::vector<double> signs(20'000);
  for (size_t i = 0; i < signs.size(); ++i) signs[i] = i % 3 == 0 ? -1 : 1;
  std::vector<double> wanted;
  double product = 1;
  for (const double v : signs) wanted.push_back(product *= v);
  EXPECT_EQ(values_of(cumprod(array_of(signs, {20'000}, float16))), wanted);
}

TEST_P(ScanTest, without_an_axis_the_array_is_flattened) {
  const Array x({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(cumsum(x).shape(), Shape{6});
  EXPECT_THAT(cumsum(x).to_vector<int32_t>(), ElementsAre(1, 3, 6, 10, 15, 21));
  EXPECT_THAT(cumsum(x, 0).to_vector<int32_t>(), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(cumsum(Array(7)).to_vector<int32_t>(), ElementsAre(7));
}

TEST_P(ScanTest, integers_wrap_around_and_halves_are_rounded_once) {
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(cumsum(Array({kLargest, 1}, {2})).to_vector<int32_t>(),
              ElementsAre(kLargest, std::numeric_limits<int32_t>::min()));
  // A sum in float16 would stop at 2048.
  const std::vector<double> sums = values_of(cumsum(ones({5000}, float16)));
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(sums[i], numeric::rounded(static_cast<double>(i + 1), float16)) << i;
  }
}

TEST_P(ScanTest, nan_and_infinity_reach_what_comes_after_them) {
  std::vector<double> values(3000, 1);
  values[1500] = std::nan("");
  const std::vector<double> sums = values_of(cumsum(array_of(values, {3000}, float32)));
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(std::isnan(sums[i]), i >= 1500) << i;
}

TEST_P(ScanTest, empty_arrays_have_empty_scans_and_wrong_axes_are_refused) {
  EXPECT_TRUE(values_of(cumsum(zeros({0}))).empty());
  EXPECT_EQ(cumsum(zeros({3, 0}), 1).shape(), (Shape{3, 0}));
  EXPECT_TRUE(values_of(cumprod(zeros({0, 3}), 0)).empty());
  EXPECT_THAT([] { (void)cumsum(zeros({2}), 1); },
              ThrowsMessage<UsageError>(HasSubstr("cumsum: there is no axis 1")));
}

}  // namespace
}  // namespace holdfast
