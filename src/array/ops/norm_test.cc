#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/fast.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class NormTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, NormTest, both_styles(), style_name);

struct NormCase {
  bool layer;
  bool weight;
  bool bias;
};

void check_norm(const Shape& shape, Dtype dtype, Lie lie, const NormCase& c) {
  constexpr float kEps = 1e-5F;
  const auto n = static_cast<size_t>(shape.back());
  const std::vector<double> x =
      numeric::numbers(static_cast<size_t>(elements(shape)), -3, 5, dtype);
  const std::vector<double> w = numeric::numbers(n, 0.5, 1.5, dtype, 1);
  const std::vector<double> b = numeric::numbers(n, 2, 3, dtype, 2);
  std::vector<double> wanted;
  for (size_t row = 0; row < x.size() / n; ++row) {
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += x[row * n + k];
    const double mean = c.layer ? sum / static_cast<double>(n) : 0;
    double squares = 0;
    for (size_t k = 0; k < n; ++k) squares += std::pow(x[row * n + k] - mean, 2);
    const double root = std::sqrt(squares / static_cast<double>(n) + static_cast<double>(kEps));
    for (size_t k = 0; k < n; ++k) {
      const double v = (x[row * n + k] - mean) / root * (c.weight ? w[k] : 1);
      wanted.push_back(v + (c.bias ? b[k] : 0));
    }
  }
  const Array a = numeric::laid_out(array_of(x, shape, dtype), lie);
  std::optional<Array> weight;
  std::optional<Array> bias;
  if (c.weight) weight = numeric::laid_out(array_of(w, {shape.back()}, dtype), lie);
  if (c.bias) bias = array_of(b, {shape.back()}, dtype);
  const Array y =
      c.layer ? fast::layer_norm(a, weight, bias, kEps) : fast::rms_norm(a, weight, kEps);
  ASSERT_EQ(y.shape(), shape);
  ASSERT_EQ(y.dtype(), dtype);
  // Elements near the mean are differences of larger numbers.
  const std::vector<double> got = values_of(y);
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = 2 * numeric::half_ulp(dtype) * std::abs(wanted[i]) + 4e-6;
    ASSERT_NEAR(got[i], wanted[i], allowed)
        << to_string(dtype) << to_string(shape) << numeric::to_string(lie) << " " << i;
  }
}

TEST_P(NormTest, rows_of_any_length_agree_with_double_precision) {
  for (const int64_t n : {1, 5, 31, 32, 33, 255, 257, 1000}) {
    check_norm({7, n}, float32, Lie::contiguous, {.layer = false, .weight = true, .bias = false});
    check_norm({7, n}, float32, Lie::contiguous, {.layer = true, .weight = true, .bias = true});
  }
  for (const Lie lie : numeric::kLies) {
    check_norm({3, 2, 40}, float32, lie, {.layer = true, .weight = true, .bias = true});
  }
}

TEST(Norm, weight_and_bias_may_be_missing) {
  check_norm({3, 70}, float32, Lie::contiguous, {.layer = false, .weight = false, .bias = false});
  check_norm({3, 70}, float32, Lie::contiguous, {.layer = true, .weight = true, .bias = false});
  check_norm({3, 70}, float32, Lie::contiguous, {.layer = true, .weight = false, .bias = true});
}

TEST(Norm, two_byte_floats_are_normed) {
  check_norm({4, 100}, bfloat16, Lie::contiguous, {.layer = false, .weight = true, .bias = false});
  check_norm({4, 100}, float16, Lie::contiguous, {.layer = true, .weight = true, .bias = true});
}

TEST_P(NormTest, nightly_all_floats_and_layouts) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    for (const Lie lie : numeric::kLies) {
      check_norm({4, 100}, dtype, lie, {.layer = false, .weight = false, .bias = false});
      check_norm({4, 100}, dtype, lie, {.layer = false, .weight = true, .bias = false});
      check_norm({4, 100}, dtype, lie, {.layer = true, .weight = false, .bias = false});
      check_norm({4, 100}, dtype, lie, {.layer = true, .weight = true, .bias = true});
    }
  }
}

TEST(Norm, large_halves_do_not_overflow_when_they_are_squared) {
  for (const double v :
       values_of(fast::rms_norm(full({2, 64}, 30'000, float16), ones({64}, float16)))) {
    EXPECT_NEAR(v, 1, 1e-3);
  }
}

TEST(Norm, dtypes_promote_and_empty_arrays_are_normed) {
  const Array x = ones({2, 40}, float16);
  EXPECT_EQ(fast::rms_norm(x, ones({40}, float32)).dtype(), float32);
  EXPECT_EQ(values_of(fast::rms_norm(x, full({40}, 2, float32), 0)), std::vector<double>(80, 2));
  EXPECT_TRUE(values_of(fast::layer_norm(ones({0, 40}))).empty());
  EXPECT_TRUE(values_of(fast::rms_norm(ones({3, 0}))).empty());
}

TEST(Norm, what_does_not_fit_is_refused) {
  EXPECT_THAT([] { (void)fast::rms_norm(ones({3}, int32)); },
              ThrowsMessage<UsageError>(HasSubstr("rms_norm: x is int32 of shape (3,)")));
  EXPECT_THROW((void)fast::rms_norm(Array(1.0F)), UsageError);
  EXPECT_THAT(
      [] {
        (void)fast::rms_norm(ones({2, 3}), ones({2}));
      },
      ThrowsMessage<UsageError>(HasSubstr("the weight has the shape (2,)")));
  EXPECT_THAT(
      [] {
        (void)fast::layer_norm(ones({2, 3}), {}, ones({1, 3}));
      },
      ThrowsMessage<UsageError>(HasSubstr("the bias has the shape (1, 3)")));
}

}  // namespace
}  // namespace holdfast
