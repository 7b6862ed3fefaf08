// Bodies for few strong threads work on blocks and squares of elements: what lies at their edges,
// and what lies in memory in other ways, is computed as everything else.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();

// Small whole numbers, which every dtype has: sums of them are exact.
std::vector<double> small_numbers(int64_t count, int64_t salt = 0) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 7 + salt) % 61));
  return values;
}

void expect_same_numbers(const std::vector<double>& got, const std::vector<double>& wanted,
                         const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool same = std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i];
    ASSERT_TRUE(same) << what << ": element " << i << " is " << got[i] << " instead of "
                      << wanted[i];
  }
}

TEST(StrongBodies, every_half_becomes_the_float_that_it_is_and_comes_back) {
  std::vector<Float16> all;
  std::vector<double> wanted;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.push_back(std::bit_cast<Float16>(static_cast<uint16_t>(bits)));
    wanted.push_back(static_cast<double>(static_cast<float>(all.back())));
  }
  const Array halves(all, {0x10000});
  const Array floats = astype(halves, float32);
  expect_same_numbers(values_of(floats), wanted, "as floats");
  expect_same_numbers(values_of(astype(floats, float16)), wanted, "as halves again");
  expect_same_numbers(values_of(astype(halves, bfloat16)), values_of(astype(floats, bfloat16)),
                      "as bfloats");
}

TEST(StrongBodies, floats_and_integers_round_to_the_nearest_half_and_of_two_to_the_even_one) {
  // Between two halves, just below and just above; subnormal ones, the largest and beyond.
  std::vector<float> floats;
  for (const float base : {0x1p-26F, 0x1p-25F, 0x1.8p-24F, 0x1p-15F, 0x1.ffcp-15F, 1.0F, 2049.0F,
                           2051.0F, 65504.0F, 65519.996F, 65520.0F, 1e30F}) {
    for (const float v : {base, std::nextafter(base, 0.0F), std::nextafter(base, 1e38F),
                          base * (1 + 0x1p-11F), base * (1 + 0x3p-11F)}) {
      floats.push_back(v);
      floats.push_back(-v);
    }
  }
  std::vector<double> wanted;
  for (const float v : floats)
    wanted.push_back(static_cast<double>(static_cast<float>(Float16(v))));
  const auto count = static_cast<int64_t>(floats.size());
  const Array given(floats, {count});
  expect_same_numbers(values_of(astype(given, float16)), wanted, "floats");
  // The same of doubles, of which the float would be half-way.
  EXPECT_EQ(values_of(astype(Array({1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11}, {2}), float16)),
            (std::vector<double>{1 + 0x1p-10, 1}));
  EXPECT_EQ(values_of(astype(Array({2049, 2051, 65519, 65520, -(1 << 24) - 1}, {5}), float16)),
            (std::vector<double>{2048, 2052, 65504, kDoubleInfinity, -kDoubleInfinity}));
}

TEST(StrongBodies, halves_of_any_number_at_any_place_are_added) {
  const std::vector<double> numbers = small_numbers(420);
  const Array x = array_of(numbers, {420}, float16);
  for (const int64_t count : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200}) {
    for (const int64_t offset : {0, 1, 7}) {
      const Array part = slice(x, {{.start = offset, .stop = offset + count}});
      const Array apart = slice(x, {{.start = offset, .stop = offset + 2 * count - 1, .step = 2}});
      const Array backwards = slice(part, {{.step = -1}});
      std::vector<double> sums;
      std::vector<double> differences;
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const auto o = static_cast<size_t>(offset);
        sums.push_back(numbers[o + i] + numbers[o + 2 * i]);
        differences.push_back(numbers[o + static_cast<size_t>(count) - 1 - i] - numbers[o + i]);
      }
      EXPECT_EQ(values_of(part + apart), sums) << count << " from " << offset;
      EXPECT_EQ(values_of(backwards - part), differences) << count << " from " << offset;
    }
  }
  EXPECT_TRUE(values_of(zeros({0}, float16) + zeros({0}, float16)).empty());
}

TEST(StrongBodies, halves_meet_rows_columns_and_numbers) {
  for (const int64_t columns : {5, 33, 100, 130}) {
    const std::vector<double> numbers = small_numbers(3 * columns);
    const Array x = array_of(numbers, {3, columns}, float16);
    const std::vector<double> row = small_numbers(columns, 5);
    const Array a_row = array_of(row, {columns}, float32);
    const Array a_column = array_of({100, 200, 300}, {3, 1}, float16);
    std::vector<double> wanted;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto n = static_cast<size_t>(columns);
      const size_t line = i / n;
      wanted.push_back(numbers[i] + row[i % n] + 100.0 * static_cast<double>(line + 1) + 0.5);
    }
    EXPECT_EQ(values_of(x + a_row + a_column + 0.5F), wanted) << columns;
    const Array chosen = where(x < a_column, x, broadcast_to(Array(Float16(1.0F)), x.shape()));
    EXPECT_EQ(values_of(chosen), numbers) << columns;
  }
}

// As seen through a transposed view: element (i, j) is that of (j, i).
std::vector<double> transposed_of(const std::vector<double>& values, int64_t rows,
                                  int64_t columns) {
  std::vector<double> result;
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      result.push_back(values[static_cast<size_t>(i * columns + j)]);
    }
  }
  return result;
}

struct Sides {
  int64_t rows;
  int64_t columns;
};
constexpr Sides kSides[] = {{16, 16}, {17, 130}, {64, 515}, {257, 129}};

TEST(StrongBodies, transposed_operands_of_every_size_are_added_and_copied) {
  for (const Dtype dtype : {uint8, float16, float32, float64}) {
    for (const auto& [rows, columns] : kSides) {
      const std::string what = fmt::format("{} {} x {}", kernel::to_string(dtype), rows, columns);
      const std::vector<double> x = small_numbers(rows * columns);
      const std::vector<double> y = small_numbers(rows * columns, 3);
      const Array turned = transpose(array_of(x, {rows, columns}, dtype));
      const std::vector<double> wanted = transposed_of(x, rows, columns);
      std::vector<double> sums = wanted;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += y[i];
      EXPECT_EQ(values_of(array_of(y, {columns, rows}, dtype) + turned), sums) << what;
      EXPECT_EQ(values_of(contiguous(turned)), wanted) << what;
    }
  }
}

TEST(StrongBodies, transposed_views_with_steps_offsets_and_directions_are_added_and_copied) {
  constexpr int64_t kRows = 70;
  constexpr int64_t kColumns = 300;
  const std::vector<double> numbers = small_numbers(2 * kRows * kColumns);
  const Array all = array_of(numbers, {2, kRows, kColumns}, float32);
  const std::vector<std::vector<Slice>> parts{
      {{}, {.start = 3}, {.start = 1}},
      {{}, {}, {.step = 2}},
      {{}, {.step = 3}, {.start = 5, .step = 2}},
      {{}, {.step = -1}, {}},
      {{}, {}, {.step = -1}},
      {{.step = -1}, {.step = -2}, {.step = -1}},
  };
  for (size_t p = 0; p < parts.size(); ++p) {
    const Array part = slice(all, parts[p]);
    const int64_t rows = part.shape(1);
    const int64_t columns = part.shape(2);
    const std::vector<double> own = values_of(part);
    std::vector<double> wanted;
    for (int64_t b = 0; b < 2; ++b) {
      const auto begin = own.begin() + b * rows * columns;
      const std::vector<double> one = transposed_of({begin, begin + rows * columns}, rows, columns);
      wanted.insert(wanted.end(), one.begin(), one.end());
    }
    const Array turned = transpose(part, {0, 2, 1});
    EXPECT_EQ(values_of(contiguous(turned)), wanted) << p;
    std::vector<double> sums = wanted;
    for (double& v : sums) v += 1;
    EXPECT_EQ(values_of(turned + ones({2, columns, rows})), sums) << p;
    // An operand whose memory the result takes, and one that is stretched.
    const std::vector<double> factors = small_numbers(columns, 1);
    const Array column = array_of(factors, {columns, 1}, float32);
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto at = static_cast<int64_t>(i) / rows % columns;
      sums[i] = wanted[i] * factors[static_cast<size_t>(at)] + wanted[i];
    }
    EXPECT_EQ(values_of(turned * column + turned), sums) << p;
  }
}

TEST(StrongBodies, exponentials_are_right_from_the_least_subnormal_to_the_largest_float) {
  std::vector<float> x{0.0F,   -0.0F,  1.0F,    -1.0F,   88.72F,  88.73F,  89.0F,  200.0F,
                       -87.3F, -88.0F, -100.0F, -103.2F, -103.9F, -104.0F, -1e30F, 1e-30F};
  for (int i = -1000; i < 900; ++i) x.push_back(static_cast<float>(i) * 0.0987F);
  std::vector<double> wanted;
  std::vector<double> sigmoids;
  for (const float v : x) {
    wanted.push_back(std::exp(static_cast<double>(v)));
    sigmoids.push_back(1 / (1 + std::exp(-static_cast<double>(v))));
  }
  const auto count = static_cast<int64_t>(x.size());
  const Array given(x, {count});
  numeric::expect_close(values_of(exp(given)), wanted, float32, 1, "exp");
  numeric::expect_close(values_of(sigmoid(given)), sigmoids, float32, 4, "sigmoid");
  for (const Dtype dtype : {float16, bfloat16}) {
    const Array rounded = astype(given, dtype);
    std::vector<double> of_rounded;
    for (const double v : values_of(rounded)) of_rounded.push_back(std::exp(v));
    numeric::expect_close(values_of(exp(rounded)), of_rounded, dtype, 1, "exp of two bytes");
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<double> special = values_of(exp(Array({nan, inf, -inf, -nan}, {4})));
  expect_same_numbers(special, {NAN, kDoubleInfinity, 0, NAN}, "special");
}

TEST(StrongBodies, softmax_of_halves_with_rows_of_any_length_adds_up_to_one) {
  for (const int64_t length : {1, 31, 32, 33, 100, 257}) {
    const std::vector<double> numbers =
        numeric::numbers(static_cast<size_t>(40 * length), -4, 4, float16);
    const auto expect_softmax = [&](const Array& got, bool along_rows) {
      std::vector<double> wanted = numbers;
      const auto n = static_cast<size_t>(length);
      for (size_t r = 0; r < 40; ++r) {
        double sum = 0;
        for (size_t k = 0; k < n; ++k) sum += std::exp(numbers[r * n + k]);
        for (size_t k = 0; k < n; ++k) wanted[r * n + k] = std::exp(numbers[r * n + k]) / sum;
      }
      if (!along_rows) wanted = transposed_of(wanted, 40, length);
      numeric::expect_close(values_of(got), wanted, float16, 8,
                            std::to_string(length) + (along_rows ? " in rows" : " in columns"));
    };
    const Array x = array_of(numbers, {40, length}, float16);
    expect_softmax(softmax(x), true);
    expect_softmax(softmax(contiguous(transpose(x)), 0), false);
  }
}

}  // namespace
}  // namespace holdfast
