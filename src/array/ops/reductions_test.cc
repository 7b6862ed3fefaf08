// Products, truth, variance and argmin; reduce_test.cc has what they share with sums and extremes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "holdfast/array/ops/axis_test.h"
#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ReductionsTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, ReductionsTest, both_styles(), style_name);

const double kReductionsNaN = std::nan("");

// Few zeros, so that rows differ in whether they have any; products stay near one.
std::vector<double> mixed_values(int64_t count, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    if (is_floating(dtype)) {
      v = numeric::rounded(0.9 + 0.2 * static_cast<double>(random() % 1000) / 1000, dtype);
    } else {
      v = static_cast<double>(random() % 5);
      if (dtype == bool_) v = v > 0 ? 1 : 0;
    }
    if (random() % 300 == 0) v = 0;
  }
  return values;
}

void check_reductions(const Shape& shape, int64_t axis, Dtype dtype, Lie lie) {
  const std::vector<double> values = mixed_values(elements(shape), dtype, 3);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  const Reduce how{.axes = {axis}};
  std::vector<double> all_true;
  std::vector<double> any_true;
  std::vector<double> smallest;
  std::vector<double> products;
  for (const auto& row : numeric::rows_along(shape, axis)) {
    double product = 1;
    uint32_t wrapped = 1;
    size_t least = 0;
    bool every = true;
    bool some = false;
    for (size_t k = 0; k < row.size(); ++k) {
      const double v = values[row[k]];
      product *= v;
      wrapped *= static_cast<uint32_t>(static_cast<int64_t>(v));
      every = every && v != 0;
      some = some || v != 0;
      if (v < values[row[least]]) least = k;
    }
    all_true.push_back(every ? 1 : 0);
    any_true.push_back(some ? 1 : 0);
    smallest.push_back(static_cast<double>(least));
    products.push_back(is_floating(dtype)           ? product
                       : is_unsigned_integer(dtype) ? wrapped
                                                    : static_cast<int32_t>(wrapped));
  }
  const std::string what = std::string(to_string(dtype)) + " " + to_string(shape) + " over " +
                           std::to_string(axis) + " " + numeric::to_string(lie);
  EXPECT_EQ(values_of(all(a, how)), all_true) << what;
  EXPECT_EQ(values_of(any(a, how)), any_true) << what;
  EXPECT_EQ(values_of(argmin(a, axis)), smallest) << what;
  const Array product = prod(a, how);
  numeric::expect_close(values_of(product), products, product.dtype(),
                        static_cast<double>(shape[static_cast<size_t>(axis)]), "prod of " + what);
}

TEST_P(ReductionsTest, products_truth_and_positions_agree_with_a_plain_loop) {
  check_reductions({5, 300}, 1, float32, Lie::contiguous);
  check_reductions({2, 40'000}, 1, float32, Lie::contiguous);
  check_reductions({300, 40}, 0, int8, Lie::contiguous);
}

TEST_P(ReductionsTest, nightly_all_dtypes_axes_and_layouts) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    if (!is_floating(dtype) && size_of(dtype) == Bytes(8)) continue;  // wraps at another place
    for (const Lie lie : numeric::kLies) {
      for (const int64_t axis : {0, 1, 2}) check_reductions({9, 40, 33}, axis, dtype, lie);
      check_reductions({2, 9000}, 1, dtype, lie);
    }
  }
}

TEST(Reductions, results_have_the_dtypes_that_are_promised) {
  const std::vector<std::pair<Dtype, Dtype>> products{
      {bool_, int32},   {int8, int32},      {int16, int32},       {int32, int32},
      {int64, int64},   {uint8, uint32},    {uint16, uint32},     {uint32, uint32},
      {uint64, uint64}, {float16, float16}, {bfloat16, bfloat16}, {float64, float64}};
  for (const auto& [from, to] : products) {
    const Array a = array_of({1, 1, 1}, {3}, from);
    EXPECT_EQ(prod(a).dtype(), to) << to_string(from);
    EXPECT_EQ(all(a).dtype(), bool_) << to_string(from);
    EXPECT_EQ(any(a).dtype(), bool_) << to_string(from);
    EXPECT_EQ(var(a).dtype(), floating(from)) << to_string(from);
    EXPECT_EQ(std(a).dtype(), floating(from)) << to_string(from);
    EXPECT_EQ(argmin(a).dtype(), uint32) << to_string(from);
  }
}

TEST_P(ReductionsTest, products_of_integers_wrap_around) {
  EXPECT_EQ(prod(full({33}, 2, int8)).item<int32_t>(), 0);
  EXPECT_EQ(prod(full({31}, 2, int8)).item<int32_t>(), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(prod(full({3}, -100, int8)).item<int32_t>(), -1'000'000);
}

TEST_P(ReductionsTest, over_no_elements_they_are_what_changes_nothing) {
  const Array none = zeros({0, 3});
  EXPECT_THAT(values_of(prod(none, {.axes = {0}})), Each(1));
  EXPECT_THAT(values_of(all(none, {.axes = {0}})), Each(1));
  EXPECT_THAT(values_of(any(none, {.axes = {0}})), Each(0));
  EXPECT_TRUE(std::isnan(var(none).item<float>()));
  EXPECT_TRUE(std::isnan(std(none).item<float>()));
  EXPECT_TRUE(values_of(prod(none, {.axes = {1}})).empty());
  EXPECT_TRUE(values_of(var(none, {.axes = {1}})).empty());
  EXPECT_THAT([&] { (void)argmin(none, 0); },
              ThrowsMessage<UsageError>(HasSubstr("argmin: an array of shape (0, 3)")));
}

TEST_P(ReductionsTest, nan_is_true_and_the_smallest_of_all) {
  const Array x = array_of({3, kReductionsNaN, 1, kReductionsNaN}, {4}, float32);
  EXPECT_EQ(argmin(x).item<uint32_t>(), 1U);
  EXPECT_TRUE(all(x).item<bool>());
  EXPECT_TRUE(any(array_of({0, kReductionsNaN}, {2}, float32)).item<bool>());
  EXPECT_FALSE(any(array_of({0, -0.0}, {2}, float32)).item<bool>());
  EXPECT_TRUE(std::isnan(values_of(prod(x))[0]));
}

TEST(Reductions, scalars_and_kept_dimensions) {
  EXPECT_EQ(prod(Array(3.5F)).item<float>(), 3.5F);
  EXPECT_EQ(argmin(Array(7.0F)).item<uint32_t>(), 0U);
  const Array a = zeros({2, 3, 4});
  EXPECT_EQ(prod(a, {.axes = {-2}, .keep_dims = true}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(std(a, {.axes = {0, 2}, .keep_dims = true}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(var(a, {.axes = {0, 2}}).shape(), Shape{3});
  EXPECT_EQ(argmin(a, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_THROW((void)var(a, {.axes = {3}}), UsageError);
}

void check_variance(const Shape& shape, int64_t axis, Dtype dtype, double ddof, double far) {
  std::vector<double> values = numeric::numbers(static_cast<size_t>(elements(shape)), -4, 4, dtype);
  for (double& v : values) v = numeric::rounded(v + far, dtype);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), Lie::transposed);
  std::vector<double> variances;
  std::vector<double> deviations;
  for (const auto& row : numeric::rows_along(shape, axis)) {
    const auto n = static_cast<double>(row.size());
    double sum = 0;
    for (const size_t i : row) sum += values[i];
    double squares = 0;
    for (const size_t i : row) squares += (values[i] - sum / n) * (values[i] - sum / n);
    variances.push_back(squares / (n - ddof));
    deviations.push_back(std::sqrt(squares / (n - ddof)));
  }
  const Reduce how{.axes = {axis}};
  const std::string what = std::string(to_string(dtype)) + " far " + std::to_string(far);
  // The mean is off by a rounding of numbers that are `far` from zero.
  numeric::expect_close(values_of(var(a, how, ddof)), variances, floating(dtype), 32, what);
  numeric::expect_close(values_of(std(a, how, ddof)), deviations, floating(dtype), 32, what);
}

TEST(Reductions, variance_is_computed_in_two_passes_and_in_wide_floats) {
  check_variance({7, 60}, 1, float32, 0, 0);
  check_variance({7, 60}, 1, float16, 1, 0);
  // One pass would lose everything: the squares differ in places that float32 has not.
  check_variance({3, 500}, 1, float32, 0, 4096);
}

TEST(Reductions, variance_without_a_divisor_is_not_a_number) {
  const Array one = array_of({5}, {1}, float32);
  EXPECT_TRUE(std::isnan(var(one, {}, 1).item<float>()));
  EXPECT_EQ(var(array_of({0, 2}, {2}, float32), {}, 5).item<float>(),
            std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace holdfast
