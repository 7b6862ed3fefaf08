#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;

class QuantizedMatmulTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, QuantizedMatmulTest, both_styles(), style_name);

std::vector<double> quantizable_values(int64_t count, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = numeric::rounded(draw(random), dtype);
  return values;
}

// Row-major weights of shape [rows, values] as quantized ones stand for them.
std::vector<double> weights_of(const std::vector<uint32_t>& words,
                               const std::vector<double>& scales, const std::vector<double>& biases,
                               int64_t group) {
  std::vector<double> result;
  for (size_t i = 0; i < words.size() * 8; ++i) {
    const uint32_t q = words[i / 8] >> (4 * (i % 8)) & 15U;
    const size_t g = i / static_cast<size_t>(group);
    result.push_back(scales[g] * q + biases[g]);
  }
  return result;
}

struct Types {
  Dtype x, scales, biases;
};

void check(int64_t m, int64_t k, int64_t n, const Quantization& how, const Types& types,
           Lie lie = Lie::contiguous) {
  const int64_t rows = how.transpose ? n : k;
  const int64_t values = how.transpose ? k : n;
  std::mt19937 random(5);
  std::vector<uint32_t> words(static_cast<size_t>(rows * values / 8));
  for (uint32_t& w : words) w = static_cast<uint32_t>(random());
  const Shape groups{rows, values / how.group_size};
  const std::vector<double> x = quantizable_values(m * k, types.x, 1);
  const std::vector<double> scales = quantizable_values(elements(groups), types.scales, 2);
  const std::vector<double> biases = quantizable_values(elements(groups), types.biases, 3);
  const Array got = quantized_matmul(
      numeric::laid_out(array_of(x, {m, k}, types.x), lie), Array(words, {rows, values / 8}),
      numeric::laid_out(array_of(scales, groups, types.scales), lie),
      numeric::laid_out(array_of(biases, groups, types.biases), lie), how);
  const Dtype dtype = promote(types.x, promote(types.scales, types.biases));
  ASSERT_EQ(got.dtype(), dtype);
  ASSERT_EQ(got.shape(), (Shape{m, n}));
  const std::vector<double> weights = weights_of(words, scales, biases, how.group_size);
  const std::vector<double> y = values_of(got);
  // As for a product of floats: roundings of float32 relative to the sum of magnitudes. The parts
  // with scale and bias are summed apart, and may be larger than what they make together.
  const double computed = std::min(numeric::half_ulp(dtype), numeric::half_ulp(float32));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      double size = 0;
      for (int64_t l = 0; l < k; ++l) {
        const auto at = static_cast<size_t>(how.transpose ? j * k + l : l * n + j);
        const double v = x[static_cast<size_t>(i * k + l)];
        sum += v * weights[at];
        size += std::abs(v) * (15 * std::abs(scales[at / static_cast<size_t>(how.group_size)]) +
                               std::abs(biases[at / static_cast<size_t>(how.group_size)]));
      }
      const double allowed = 2 * numeric::half_step(dtype) +
                             1.001 * numeric::half_ulp(dtype) * std::abs(sum) +
                             (2 + std::sqrt(static_cast<double>(k))) * computed * size;
      ASSERT_NEAR(y[static_cast<size_t>(i * n + j)], sum, allowed)
          << to_string(types.x) << to_string(types.scales) << to_string(types.biases) << " " << m
          << " " << k << " " << n << " transpose " << how.transpose << " at " << i << " " << j;
    }
  }
}

TEST_P(QuantizedMatmulTest, agrees_with_double_precision) {
  for (const bool transpose : {true, false}) {
    for (const Dtype dtype : {float32, float16, bfloat16}) {
      check(1, 128, 192, {.transpose = transpose}, {dtype, dtype, dtype});
      check(3, 352, 352, {.group_size = 32, .transpose = transpose}, {dtype, dtype, dtype});
      check(65, 128, 64, {.transpose = transpose}, {dtype, dtype, dtype});
    }
    // The dtypes of all three count.
    check(2, 128, 128, {.group_size = 128, .transpose = transpose}, {float16, float32, float16});
  }
  check(5, 64, 7, {}, {float32, float32, float32}, Lie::transposed);
}

TEST_P(QuantizedMatmulTest, every_number_of_rows_has_its_own_results) {
  for (const Dtype dtype : {float16, float32}) {
    for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
      check(m, 128, 19, {}, {dtype, dtype, dtype});
    }
  }
  // So many columns that threadgroups have more of them.
  check(3, 192, 8200, {}, {float16, float16, float16});
  check(9, 64, 8200, {}, {float16, float16, float16});
  check(1, 128, 8200, {}, {float16, float16, float16});
  check(2, 64, 8200, {.group_size = 32}, {bfloat16, bfloat16, bfloat16});
}

// A ring of weights has room for some groups of them at a time: depths of fewer, of several rounds
// of all simdgroups, and of parts of one. Scales of float32 leave less room.
TEST_P(QuantizedMatmulTest, depths_that_rings_are_no_part_of_are_summed_to_their_ends) {
  for (const int64_t group : {32, 64, 128}) {
    for (const int64_t depth : {128, 1024, 2048 + 128, 3072 + 128 + 256}) {
      for (const int64_t m : {1, 2, 4, 9}) {
        check(m, depth, 17, {.group_size = group}, {float16, float16, float16});
      }
      check(2, depth, 17, {.group_size = group}, {bfloat16, float32, bfloat16});
    }
    check(2, 1056 / group * group, 5, {.group_size = group}, {bfloat16, bfloat16, bfloat16});
    check(9, 288 / group * group, 8200, {.group_size = group}, {float16, float32, float32});
  }
}

TEST_P(QuantizedMatmulTest, columns_and_groups_that_fill_nothing_are_left_at_their_edges) {
  for (const Dtype dtype : {float16, bfloat16, float32}) {
    for (const int64_t group : {32, 64, 128}) {
      for (const int64_t groups : {1, 3, 4, 5, 33}) {
        check(2, group * groups, groups == 4 ? 16 : 1 + groups, {.group_size = group},
              {dtype, dtype, dtype});
      }
    }
  }
}

TEST_P(QuantizedMatmulTest, operands_that_begin_anywhere_are_read_where_they_are) {
  for (const Dtype dtype : {float16, bfloat16, float32}) {
    const auto moved = [](const Array& array, int64_t by) {
      const Array before = zeros({by}, array.dtype());
      const Array all = contiguous(concatenate({before, reshape(array, {array.size()})}, 0));
      eval(all);
      return reshape(slice(all, {{.start = by}}), array.shape());
    };
    const std::vector<Array> w = quantize(random_normal({20, 256}, dtype, RandomKey{2}));
    for (const int64_t rows : {1, 3}) {
      const Array x = random_normal({rows, 256}, dtype, RandomKey{1});
      const std::vector<double> wanted = values_of(quantized_matmul(x, w[0], w[1], w[2]));
      for (const int64_t by : {1, 2, 4, 7}) {
        EXPECT_EQ(values_of(quantized_matmul(moved(x, by), w[0], w[1], w[2])), wanted) << by;
        EXPECT_EQ(values_of(quantized_matmul(x, moved(w[0], by), w[1], w[2])), wanted) << by;
        EXPECT_EQ(values_of(quantized_matmul(x, w[0], moved(w[1], by), moved(w[2], by))), wanted)
            << by;
      }
    }
  }
}

// Rows and columns beside infinite ones, and groups beyond the last, take nothing from them.
TEST_P(QuantizedMatmulTest, what_is_infinite_stays_in_its_row) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> x(3 * 192, 1);
  x[2 * 192 - 1] = kInfinity;
  const Array words(std::vector<uint32_t>(5 * 24, 0x11111111U), {5, 24});
  const Array one = ones({5, 3}, float16);
  std::vector<double> wanted(15, 384);
  std::fill_n(wanted.begin() + 5, 5, kInfinity);
  EXPECT_EQ(values_of(quantized_matmul(array_of(x, {3, 192}, float16), words, one, one)), wanted);
}

TEST_P(QuantizedMatmulTest, nightly_all_dtypes_and_layouts_agree_with_double_precision) {
  const Dtype floats[] = {float16, bfloat16, float32, float64};
  for (const Dtype x : floats) {
    for (const Dtype scales : floats) {
      for (const Dtype biases : floats) {
        for (const bool transpose : {true, false}) {
          check(3, 384, 64, {.group_size = 64, .transpose = transpose}, {x, scales, biases});
          check(64, 64, 384, {.group_size = 64, .transpose = transpose}, {x, scales, biases});
        }
      }
    }
  }
  for (const int64_t group : {32, 64, 128}) {
    for (const Lie lie : numeric::kLies) {
      for (const bool transpose : {true, false}) {
        check(4, 256, 128, {.group_size = group, .transpose = transpose},
              {float32, float32, float32}, lie);
      }
    }
  }
}

TEST_P(QuantizedMatmulTest, leading_axes_stay) {
  const Array w = zeros({6, 8}, uint32);
  const Array one = ones({6, 1});
  EXPECT_EQ(quantized_matmul(zeros({2, 3, 64}), w, one, one).shape(), (Shape{2, 3, 6}));
  EXPECT_EQ(quantized_matmul(zeros({64}), w, one, one).shape(), Shape{6});
  EXPECT_EQ(values_of(quantized_matmul(ones({64}), w, one, one)), std::vector<double>(6, 64));
  EXPECT_TRUE(values_of(quantized_matmul(zeros({0, 64}), w, one, one)).empty());
}

TEST(Quantize, comes_back_within_half_a_step) {
  for (const Dtype dtype : {float32, float16, bfloat16, float64}) {
    for (const int64_t group : {32, 64, 128}) {
      const std::vector<double> values = quantizable_values(5 * 256, dtype, 7);
      const std::vector<Array> parts =
          quantize(array_of(values, {5, 256}, dtype), {.group_size = group});
      ASSERT_EQ(parts.size(), 3U);
      EXPECT_EQ(parts[0].shape(), (Shape{5, 32}));
      EXPECT_EQ(parts[1].shape(), (Shape{5, 256 / group}));
      EXPECT_EQ(parts[2].dtype(), dtype);
      const std::vector<double> back = weights_of(parts[0].to_vector<uint32_t>(),
                                                  values_of(parts[1]), values_of(parts[2]), group);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) / group * group;
        const auto [low, high] = std::minmax_element(begin, begin + group);
        const double half_a_step = (*high - *low) / 15 / 2;
        // A value in the middle may go to either side: that is decided in float32.
        ASSERT_LE(std::abs(back[i] - values[i]), half_a_step * (1 + 1e-5))
            << to_string(dtype) << " " << group << " " << i;
      }
    }
  }
}

// 15.1875 / 15 lies between two numbers of bfloat16, closer to the larger one: with that as the
// step, 0.5078125 would be half of it away from both of its neighbours, which is more than was
// promised.
TEST(Quantize, steps_that_the_dtype_lacks_are_not_rounded_up) {
  std::vector<double> values(32, 0);
  values[1] = 15.1875;
  values[2] = 0.5078125;
  const std::vector<Array> parts =
      quantize(array_of(values, {1, 32}, bfloat16), {.group_size = 32});
  const std::vector<double> back =
      weights_of(parts[0].to_vector<uint32_t>(), values_of(parts[1]), values_of(parts[2]), 32);
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(std::abs(back[i] - values[i]), 15.1875 / 15 / 2) << i;
}

TEST(Quantize, groups_of_one_value_come_back_as_they_were) {
  const std::vector<Array> parts = quantize(full({2, 64}, -0.75, float16));
  EXPECT_EQ(values_of(parts[1]), (std::vector<double>{0, 0}));
  EXPECT_EQ(values_of(parts[2]), (std::vector<double>{-0.75, -0.75}));
  EXPECT_EQ(values_of(quantized_matmul(ones({64}, float16), parts[0], parts[1], parts[2])),
            (std::vector<double>{-48, -48}));
  EXPECT_TRUE(values_of(quantize(zeros({0, 64}))[1]).empty());
}

TEST(QuantizedMatmul, what_does_not_fit_is_refused) {
  const Array x = zeros({2, 64});
  const Array w = zeros({6, 8}, uint32);
  const Array s = ones({6, 1});
  EXPECT_THROW((void)quantized_matmul(zeros({2, 32}), w, s, s), UsageError);
  EXPECT_THROW((void)quantized_matmul(zeros({2, 64}, int32), w, s, s), UsageError);
  EXPECT_THROW((void)quantized_matmul(x, zeros({6, 8}, int32), s, s), UsageError);
  EXPECT_THROW((void)quantized_matmul(x, w, ones({6, 2}), s), UsageError);
  EXPECT_THROW((void)quantized_matmul(x, w, s, s, {.group_size = 128}), UsageError);
  EXPECT_THROW((void)quantized_matmul(x, w, s, s, {.group_size = 48}), UsageError);
  EXPECT_THROW((void)quantized_matmul(x, w, s, s, {.bits = 8}), UsageError);
  EXPECT_THROW((void)quantize(zeros({64})), UsageError);
  EXPECT_THROW((void)quantize(zeros({2, 65})), UsageError);
}

}  // namespace
}  // namespace holdfast
