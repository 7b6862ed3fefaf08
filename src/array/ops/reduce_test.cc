#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "holdfast/array/layouts.h"
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

class ReduceTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, ReduceTest, both_styles(), style_name);
class ArgmaxTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, ArgmaxTest, both_styles(), style_name);
class SoftmaxTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, SoftmaxTest, both_styles(), style_name);

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kReduceInfinity = std::numeric_limits<double>::infinity();

// Values that the dtype has, so that the reference starts from the same ones.
std::vector<double> reducible_values(int64_t count, Dtype dtype, uint32_t seed = 1) {
  std::mt19937 random(seed);
  const bool has_sign = is_floating(dtype) || is_signed_integer(dtype);
  std::uniform_real_distribution<double> draw(has_sign ? -8 : 0, 8);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    v = draw(random);
    if (dtype == bool_) v = v > 4 ? 1 : 0;
    v = numeric::rounded(is_floating(dtype) ? v : std::trunc(v), dtype);
  }
  return values;
}

// The elements that each result is made of, in row-major order.
std::vector<std::vector<double>> groups_of(const std::vector<double>& values, const Shape& shape,
                                           const std::vector<int64_t>& axes) {
  const Dims away = array::normal_axes(axes, shape.size(), "test");
  int64_t outputs = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::ranges::find(away, static_cast<int64_t>(i)) == away.end()) outputs *= shape[i];
  }
  std::vector<std::vector<double>> groups(static_cast<size_t>(outputs));
  for (size_t n = 0; n < values.size(); ++n) {
    auto rest = static_cast<int64_t>(n);
    int64_t to = 0;
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      const int64_t at = rest % shape[i];
      rest /= shape[i];
      if (std::ranges::find(away, static_cast<int64_t>(i)) != away.end()) continue;
      to += at * stride;
      stride *= shape[i];
    }
    groups[static_cast<size_t>(to)].push_back(values[n]);
  }
  return groups;
}

// Sums may be off by a few roundings of float32 relative to the sum of magnitudes, whatever the
// length: the kernels have many accumulators. Then one rounding to the dtype.
constexpr double kRoundings = 8;
void expect_sums(const Array& got, const std::vector<std::vector<double>>& groups, bool mean,
                 const std::string& what) {
  const std::vector<double> values = values_of(got);
  ASSERT_EQ(values.size(), groups.size()) << what;
  for (size_t i = 0; i < groups.size(); ++i) {
    double sum = 0;
    double size = 0;
    for (const double v : groups[i]) {
      sum += v;
      size += std::abs(v);
    }
    if (mean) {
      sum /= static_cast<double>(groups[i].size());
      size /= static_cast<double>(groups[i].size());
    }
    const Dtype dtype = got.dtype();
    const double computed = std::min(numeric::half_ulp(dtype), numeric::half_ulp(float32));
    const double allowed = 2 * numeric::half_step(dtype) +
                           1.001 * numeric::half_ulp(dtype) * std::abs(sum) +
                           kRoundings * computed * size;
    if (std::isnan(sum) && std::isnan(values[i])) continue;
    ASSERT_LE(std::abs(values[i] - sum), allowed)
        << what << ": element " << i << " is " << values[i] << ", wanted " << sum;
  }
}

double extreme(const std::vector<double>& values, bool largest) {
  double best = values[0];
  for (const double v : values) {
    if (std::isnan(best)) break;
    if (std::isnan(v) || (largest ? v > best : v < best)) best = v;
  }
  return best;
}
double first_largest(const std::vector<double>& values) {
  size_t at = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (std::isnan(values[at])) break;
    if (std::isnan(values[i]) || values[i] > values[at]) at = i;
  }
  return static_cast<double>(at);
}

void check_all(const Shape& shape, const std::vector<int64_t>& axes, Dtype dtype, Lie lie) {
  const std::vector<double> values = reducible_values(elements(shape), dtype);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  const auto groups = groups_of(values, shape, axes);
  const std::string what = std::string(to_string(dtype)) + " " + to_string(shape) + " over " +
                           to_string(Dims(std::span(axes))) + " " + numeric::to_string(lie);
  expect_sums(sum(a, {.axes = axes}), groups, false, "sum of " + what);
  expect_sums(mean(a, {.axes = axes}), groups, true, "mean of " + what);
  std::vector<double> largest;
  std::vector<double> smallest;
  std::vector<double> positions;
  for (const auto& group : groups) {
    largest.push_back(extreme(group, true));
    smallest.push_back(extreme(group, false));
    positions.push_back(first_largest(group));
  }
  EXPECT_EQ(values_of(max(a, {.axes = axes})), largest) << what;
  EXPECT_EQ(values_of(min(a, {.axes = axes})), smallest) << what;
  if (axes.size() == 1) {
    EXPECT_EQ(values_of(argmax(a, axes[0])), positions) << what;
  } else if (axes.empty()) {
    EXPECT_EQ(values_of(argmax(a)), positions) << what;
  }
}

TEST_P(ReduceTest, agrees_with_double_precision) {
  for (const Dtype dtype : {float32, float16, bfloat16, int32}) {
    check_all({7, 33}, {}, dtype, Lie::contiguous);
    check_all({7, 133}, {1}, dtype, Lie::contiguous);
    check_all({37, 70}, {0}, dtype, Lie::contiguous);
    check_all({5, 6, 7}, {0, 2}, dtype, Lie::reversed);
    check_all({5, 6, 47}, {1}, dtype, Lie::transposed);
  }
}

TEST_P(ReduceTest, nightly_all_dtypes_axes_and_layouts_agree_with_double_precision) {
  const std::vector<std::pair<Shape, std::vector<std::vector<int64_t>>>> cases{
      {{1}, {{}, {0}}},
      {{100}, {{}, {-1}}},
      {{3, 50}, {{}, {0}, {1}, {0, 1}}},
      {{65, 40}, {{}, {0}, {1}, {-2}}},
      {{4, 5, 67}, {{}, {0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {-1, 0, 1}}},
      {{2, 3, 4, 5}, {{}, {0}, {1}, {2}, {3}, {0, 2}, {1, 3}, {0, 3}, {1, 2}, {0, 1, 3}}},
  };
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      for (const auto& [shape, choices] : cases) {
        for (const auto& axes : choices) check_all(shape, axes, static_cast<Dtype>(d), lie);
      }
    }
  }
}

// Of rows or columns that begin anywhere in a larger array.
void check_part(int64_t rows, int64_t columns, int64_t begin, int64_t axis, Dtype dtype) {
  const Shape whole{rows, columns + begin + 3};
  const std::vector<double> values = reducible_values(elements(whole), dtype);
  const Array a = slice(array_of(values, whole, dtype), {{}, {begin, begin + columns}});
  std::vector<double> part;
  for (int64_t i = 0; i < rows; ++i) {
    const auto row = values.begin() + i * whole[1] + begin;
    part.insert(part.end(), row, row + columns);
  }
  const auto groups = groups_of(part, {rows, columns}, {axis});
  const std::string what = std::string(to_string(dtype)) + " " + to_string(a.shape()) + " from " +
                           std::to_string(begin) + " over " + std::to_string(axis);
  expect_sums(sum(a, {.axes = {axis}}), groups, false, "sum of " + what);
  std::vector<double> smallest;
  std::vector<double> positions;
  for (const auto& group : groups) {
    smallest.push_back(extreme(group, false));
    positions.push_back(first_largest(group));
  }
  EXPECT_EQ(values_of(min(a, {.axes = {axis}})), smallest) << what;
  EXPECT_EQ(values_of(argmax(a, axis)), positions) << what;
}

// Around every length at which rows are cut in another way, and packs begin anywhere.
TEST_P(ReduceTest, rows_of_any_length_and_place_agree) {
  for (const Dtype dtype : {float32, float16}) {
    for (const int64_t n : {1, 3, 4, 8, 16, 17, 32, 33, 65, 129, 300, 2049, 4099, 33'001}) {
      for (const int64_t begin : {0, 1, 5}) check_part(3, n, begin, 1, dtype);
      check_all({2, n}, {1}, dtype, Lie::contiguous);
    }
  }
  for (const Dtype dtype : {int8, int64}) {
    for (const int64_t n : {2, 5, 16, 64, 65, 500}) check_part(3, n, 1, 1, dtype);
  }
}

TEST_P(ReduceTest, several_rows_of_each_result_agree) {
  for (const Dtype dtype : {float32, float16, int8}) {
    check_all({7, 3, 32}, {0, 2}, dtype, Lie::contiguous);
    check_all({9, 3, 2, 70}, {0, 3}, dtype, Lie::contiguous);
    check_all({3, 2, 5, 70}, {1, 3}, dtype, Lie::reversed);
  }
}

TEST_P(ReduceTest, any_number_of_short_rows_agrees) {
  for (const int64_t rows : {1, 5, 63, 64, 65, 255, 256, 257, 600}) {
    check_all({rows, 16}, {1}, float32, Lie::contiguous);
    check_all({rows, 7}, {1}, float32, Lie::contiguous);
    check_all({rows, 24}, {1}, float32, Lie::contiguous);
  }
  check_all({300, 32}, {1}, float16, Lie::contiguous);
  check_all({300, 48}, {1}, int8, Lie::contiguous);
  check_all({300, 2}, {1}, int64, Lie::contiguous);
}

TEST_P(ReduceTest, columns_of_any_number_and_place_agree) {
  for (const int64_t wide : {3, 16, 31, 130, 300}) {
    for (const int64_t high : {8, 33, 300}) {
      check_part(high, wide, 1, 0, float32);
      check_all({high, wide}, {0}, float32, Lie::contiguous);
    }
  }
  for (const int64_t wide : {16, 300}) {
    check_part(33, wide, 4, 0, float16);
    check_all({33, wide}, {0}, float16, Lie::contiguous);
  }
  check_all({20'000, 16}, {0}, float32, Lie::contiguous);
  for (const Dtype dtype : {int8, int64}) check_part(70, 40, 8, 0, dtype);
  check_all({3, 40, 2, 24}, {1}, float32, Lie::contiguous);
  check_all({6, 3, 40, 24}, {0, 2}, float32, Lie::contiguous);
}

// Threads have several packs of short rows only where there are very many rows.
TEST_P(ReduceTest, nightly_very_many_rows_agree) {
  check_all({131'072, 43}, {1}, float32, Lie::contiguous);
  check_all({32'768, 300}, {1}, float32, Lie::contiguous);
}

TEST_P(ReduceTest, eight_axes_that_lie_apart_are_walked) {
  const Shape shape{2, 3, 2, 3, 2, 3, 2, 4};
  check_all(shape, {}, float32, Lie::spread);
  check_all(shape, {1, 3, 5, 7}, float32, Lie::spread);
  check_all(shape, {0, 2, 4, 6}, float32, Lie::reversed);
  check_all(shape, {7}, float32, Lie::transposed);
}

// One accumulator would be off by hundreds of roundings.
TEST_P(ReduceTest, long_float_sums_stay_exact_to_a_few_roundings) {
  const int64_t n = 1'000'003;
  std::vector<double> values = reducible_values(n, float32);
  for (double& v : values) v = std::abs(v);
  const Array line = array_of(values, {n}, float32);
  expect_sums(sum(line), {values}, false, "line");
  expect_sums(mean(line), {values}, true, "line");
  // Of many rows each is summed by one thread. Roundings of equal elements do not cancel.
  const std::vector<double> equal(static_cast<size_t>(n), numeric::rounded(0.1, float32));
  expect_sums(sum(broadcast_to(array_of(equal, {n}, float32), {40, n}), {.axes = {1}}),
              std::vector<std::vector<double>>(40, equal), false, "rows");
  // Pieces of the outer axis, and columns in pieces.
  values.resize(900'000);
  const Array table = array_of(values, {30'000, 30}, float32);
  expect_sums(sum(slice(table, {{}, {.stop = 29}})),
              groups_of(values_of(slice(table, {{}, {.stop = 29}})), {870'000}, {}), false, "part");
  expect_sums(sum(table, {.axes = {0}}), groups_of(values, {30'000, 30}, {0}), false, "columns");
  const Array wide = broadcast_to(reshape(table, {30'000, 1, 30}), {30'000, 40, 30});
  auto forty = groups_of(values, {30'000, 30}, {0});
  for (size_t i = 0; i < 39 * size_t{30}; ++i) forty.push_back(forty[i % 30]);
  expect_sums(sum(wide, {.axes = {0}}), forty, false, "forty times columns");
  EXPECT_EQ(values_of(max(table, {.axes = {0}})), [&] {
    std::vector<double> wanted;
    for (const auto& g : groups_of(values, {30'000, 30}, {0})) {
      wanted.push_back(extreme(g, true));
    }
    return wanted;
  }());
}

TEST_P(ReduceTest, sums_with_an_infinity_are_infinite) {
  for (const int64_t n : {5, 5'000, 50'000}) {
    std::vector<double> values(static_cast<size_t>(n), 1);
    values[2] = kReduceInfinity;
    EXPECT_EQ(values_of(sum(array_of(values, {n}, float32)))[0], kReduceInfinity) << n;
    const Array column = broadcast_to(array_of(values, {n, 1}, float32), {n, 20});
    EXPECT_EQ(values_of(sum(column, {.axes = {0}})), std::vector<double>(20, kReduceInfinity)) << n;
    EXPECT_EQ(values_of(sum(copy(column), {.axes = {0}})), std::vector<double>(20, kReduceInfinity))
        << n;
  }
}

TEST_P(ReduceTest, broadcast_elements_count_as_often_as_they_are_seen) {
  const Array a = broadcast_to(Array({1.0F, 2.0F, 3.0F}, {3, 1}), {4, 3, 5});
  EXPECT_EQ(sum(a).item<float>(), 4 * 5 * 6);
  EXPECT_EQ(values_of(sum(a, {.axes = {0, 2}})), (std::vector<double>{20, 40, 60}));
  EXPECT_EQ(values_of(sum(a, {.axes = {1}})), std::vector<double>(20, 6));
}

TEST_P(ReduceTest, columns_that_lie_apart_are_not_taken_for_neighbours) {
  const Array a = reshape(arange(0, 4 * 80, 1, int32), {4, 80});
  for (const int64_t step : {1, 2, 3}) {
    const Array every = slice(a, {{}, {.step = step}});
    std::vector<int32_t> expected;
    for (int32_t column = 0; column < 80; column += static_cast<int32_t>(step)) {
      expected.push_back(4 * column + 80 * (1 + 2 + 3));
    }
    EXPECT_EQ(sum(every, {.axes = {0}}).to_vector<int32_t>(), expected) << "every " << step;
  }
}

TEST(Reduce, integer_results_have_the_dtypes_that_are_promised) {
  const std::vector<std::pair<Dtype, Dtype>> sums{
      {bool_, int32},   {int8, int32},      {int16, int32},    {int32, int32},
      {int64, int64},   {uint8, uint32},    {uint16, uint32},  {uint32, uint32},
      {uint64, uint64}, {float16, float16}, {float64, float64}};
  for (const auto& [from, to] : sums) {
    const Array a = array_of({1, 1, 1}, {3}, from);
    EXPECT_EQ(sum(a).dtype(), to) << to_string(from);
    EXPECT_EQ(mean(a).dtype(), floating(from)) << to_string(from);
    EXPECT_EQ(max(a).dtype(), from) << to_string(from);
  }
  EXPECT_EQ(argmax(Array({1, 2}, {2})).dtype(), uint32);
}

TEST_P(ReduceTest, integers_sum_beyond_their_own_range_and_wrap_at_the_end_of_the_results) {
  const std::vector<int8_t> bytes(1000, 100);
  EXPECT_EQ(sum(Array(bytes, {1000})).item<int32_t>(), 100'000);
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(sum(Array({kLargest, 1}, {2})).item<int32_t>(), std::numeric_limits<int32_t>::min());
  // The sum would not fit: the mean does.
  EXPECT_EQ(mean(Array({kLargest, kLargest}, {2})).item<float>(), 0x1p31F);
  constexpr uint64_t kHuge = uint64_t{1} << 63;
  EXPECT_EQ(mean(Array({kHuge, kHuge}, {2})).item<float>(), 0x1p63F);
}

TEST(Reduce, keeps_dimensions_on_demand) {
  const Array a = zeros({2, 3, 4});
  EXPECT_EQ(sum(a, {.axes = {1}, .keep_dims = true}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(sum(a, {.axes = {1}}).shape(), (Shape{2, 4}));
  EXPECT_EQ(sum(a, {.axes = {}, .keep_dims = true}).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(sum(a).shape(), Shape{});
  EXPECT_EQ(argmax(a, 1, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(argmax(a, {}, true).shape(), (Shape{1, 1, 1}));
}

TEST_P(ReduceTest, a_scalar_is_its_own_result) {
  const Array a(3.5F);
  EXPECT_EQ(sum(a).item<float>(), 3.5F);
  EXPECT_EQ(mean(a).item<float>(), 3.5F);
  EXPECT_EQ(max(a).item<float>(), 3.5F);
  EXPECT_EQ(argmax(a).item<uint32_t>(), 0U);
}

TEST_P(ReduceTest, over_no_elements) {
  const Array a = zeros({0, 3});
  EXPECT_EQ(values_of(sum(a, {.axes = {0}})), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(sum(a).item<float>(), 0);
  EXPECT_EQ(sum(zeros({0}, int32)).item<int32_t>(), 0);
  EXPECT_TRUE(std::isnan(mean(a).item<float>()));
  for (const double v : values_of(mean(zeros({3, 0}, float16), {.axes = {1}}))) {
    EXPECT_TRUE(std::isnan(v));
  }
  // Each of none: none.
  EXPECT_EQ(max(a, {.axes = {1}}).shape(), Shape{0});
  EXPECT_TRUE(values_of(max(a, {.axes = {1}})).empty());
  EXPECT_TRUE(values_of(argmax(a, 1)).empty());
  EXPECT_THROW((void)max(a), UsageError);
  EXPECT_THROW((void)min(a, {.axes = {0}}), UsageError);
  EXPECT_THROW((void)argmax(a), UsageError);
  EXPECT_THROW((void)argmax(a, 0), UsageError);
}

TEST_P(ReduceTest, one_nan_decides) {
  for (const Dtype dtype : {float32, float16, bfloat16, float64}) {
    for (const int64_t n : {3, 40, 70'000}) {
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<double> values = reducible_values(n, dtype);
        values[static_cast<size_t>(at)] = kNaN;
        const Array a = array_of(values, {n}, dtype);
        EXPECT_TRUE(std::isnan(values_of(max(a))[0])) << to_string(dtype) << n << " " << at;
        EXPECT_TRUE(std::isnan(values_of(min(a))[0])) << to_string(dtype) << n << " " << at;
        EXPECT_TRUE(std::isnan(values_of(sum(a))[0])) << to_string(dtype) << n << " " << at;
        EXPECT_EQ(argmax(a).item<uint32_t>(), at) << to_string(dtype) << n;
      }
    }
  }
  // In columns it decides over its own alone.
  std::vector<double> values(64 * 40, 1);
  values[5 * 40 + 7] = kNaN;
  const std::vector<double> got =
      values_of(max(array_of(values, {64, 40}, float32), {.axes = {0}}));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == 7) << i;
}

TEST_P(ReduceTest, extremes_know_infinities) {
  const Array a = array_of({-kReduceInfinity, -kReduceInfinity}, {2}, float32);
  EXPECT_EQ(values_of(max(a))[0], -kReduceInfinity);
  EXPECT_EQ(values_of(min(array_of({kReduceInfinity, 3}, {2}, float16)))[0], 3);
  EXPECT_EQ(argmax(a).item<uint32_t>(), 0U);
}

TEST_P(ArgmaxTest, the_first_of_several_is_chosen) {
  std::vector<double> values(100'000, 0);
  for (const size_t i : {size_t{60'000}, size_t{70'000}, size_t{99'999}}) values[i] = 2;
  const Array a = array_of(values, {100'000}, float32);
  EXPECT_EQ(argmax(a).item<uint32_t>(), 60'000U);
  EXPECT_EQ(argmax(slice(a, {{.step = -1}})).item<uint32_t>(), 0U);
  EXPECT_EQ(argmax(reshape(a, {10, 10'000}), 1).to_vector<uint32_t>(),
            (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 9999}));
}

// In packs and between them, threads and simdgroups; zeros of both signs are equal.
TEST_P(ArgmaxTest, the_first_of_several_in_a_row_is_chosen) {
  for (const Dtype dtype : {float32, float16, bfloat16}) {
    for (const int64_t n : {5, 16, 40, 150, 300, 2051, 9000}) {
      for (const double best : {0.0, 3.0, kNaN}) {
        const auto length = static_cast<size_t>(n);
        std::vector<double> values(5 * length, -1);
        std::vector<double> first;
        for (size_t row = 0; row < 5; ++row) {
          const size_t at = (row * length) / 5;
          first.push_back(static_cast<double>(at));
          for (const size_t other : {at, at + 1, at + 9, (at + length) / 2, length - 1}) {
            if (other >= at && other < length) values[row * length + other] = best;
          }
          if (best == 0) values[row * length + at] = -0.0;
        }
        const Array a = array_of(values, {5, n}, dtype);
        EXPECT_EQ(values_of(argmax(a, 1)), first) << to_string(dtype) << n << " " << best;
        EXPECT_EQ(values_of(argmin(-a, 1)), first) << to_string(dtype) << n << " " << best;
      }
    }
  }
}

TEST(Reduce, wrong_axes_are_refused) {
  const Array a = zeros({2, 3});
  EXPECT_THROW((void)sum(a, {.axes = {2}}), UsageError);
  EXPECT_THROW((void)sum(a, {.axes = {0, -2}}), UsageError);
  EXPECT_THROW((void)argmax(a, -3), UsageError);
  EXPECT_THROW((void)softmax(a, 2), UsageError);
}

void check_softmax(const Shape& shape, int64_t axis, Dtype dtype, Lie lie) {
  const std::vector<double> values = reducible_values(elements(shape), dtype);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  const Array got = softmax(a, axis);
  ASSERT_EQ(got.shape(), shape);
  ASSERT_EQ(got.dtype(), floating(dtype));
  const size_t at = array::normal_axis(axis, shape.size(), "test");
  int64_t step = 1;
  for (size_t i = at + 1; i < shape.size(); ++i) step *= shape[i];
  const auto n = static_cast<size_t>(shape[at]);
  const auto s = static_cast<size_t>(step);
  std::vector<double> sums(values.size(), 0);  // at the first element of each row
  const auto first = [&](size_t i) { return i / (n * s) * n * s + i % s; };
  for (size_t i = 0; i < values.size(); ++i) sums[first(i)] += std::exp(values[i]);
  std::vector<double> wanted(values.size());
  for (size_t i = 0; i < values.size(); ++i) wanted[i] = std::exp(values[i]) / sums[first(i)];
  // Of the exponential, its argument (up to 16 of them, rounded), the sum, and the division.
  numeric::expect_close(values_of(got), wanted, got.dtype(), 16,
                        std::string(to_string(dtype)) + to_string(shape) + to_string(lie));
}

// Rows that one thread, a few, a simdgroup or a threadgroup has, at once and in chunks, which begin
// anywhere.
TEST_P(SoftmaxTest, rows_of_any_length_agree_with_double_precision) {
  for (const int64_t n : {1, 3, 4, 5, 16, 31, 32, 33, 127, 1021, 1024, 1027, 2048, 4097}) {
    check_softmax({19, n}, -1, float32, Lie::contiguous);
    check_softmax({3, 3, n}, -1, float16, Lie::offset);
  }
  check_softmax({9, 5003}, -1, float16, Lie::contiguous);
  check_softmax({9, 5004}, -1, bfloat16, Lie::transposed);
  check_softmax({2, 50'257}, -1, float32, Lie::offset);
  check_softmax({2, 50'257}, -1, uint8, Lie::contiguous);
}

// Rows that are many enough not to be cut, for which registers do, or also threadgroup memory, or
// neither; the elements that lie before and after all packs are one in a row, and another.
void check_many_rows(int64_t n, Dtype dtype) {
  const std::vector<double> values = reducible_values(2 * n, dtype);
  const Array two = array_of(values, {2, n}, dtype);
  const Array many = reshape(broadcast_to(reshape(two, {1, 2, n}), {256, 2, n}), {512, n});
  const Array got = softmax(many);
  for (const int64_t first : {0, 510}) {
    std::vector<double> wanted = values;
    for (const size_t row : {size_t{0}, static_cast<size_t>(n)}) {
      double sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) sum += std::exp(values[row + i]);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        wanted[row + i] = std::exp(values[row + i]) / sum;
      }
    }
    numeric::expect_close(values_of(slice(got, {{first, first + 2}, {}})), wanted, dtype, 16,
                          std::to_string(n) + " from " + std::to_string(first));
  }
}
TEST_P(SoftmaxTest, many_long_rows_agree_with_double_precision) {
  check_many_rows(18'437, float32);
}
TEST_P(SoftmaxTest, nightly_many_rows_of_any_length_agree_with_double_precision) {
  for (const int64_t n : {16'384, 16'387, 20'003, 24'601, 35'003}) check_many_rows(n, float32);
  check_many_rows(33'003, float16);
}

TEST_P(SoftmaxTest, rows_that_begin_anywhere_agree_with_double_precision) {
  for (const int64_t skip : {1, 2, 3, 5}) {
    for (const Dtype dtype : {float32, float16, float64}) {
      const std::vector<double> values = reducible_values(400 + skip, dtype);
      const Array all = array_of(values, {400 + skip}, dtype);
      const Array part = reshape(slice(all, {{.start = skip}}), {4, 100});
      const Array same = array_of({values.begin() + skip, values.end()}, {4, 100}, dtype);
      numeric::expect_close(values_of(softmax(part)), values_of(softmax(same)), dtype, 32,
                            "from " + std::to_string(skip));
    }
  }
}

TEST_P(SoftmaxTest, most_of_a_row_may_be_minus_infinity) {
  for (const int64_t n : {40, 2000, 20'000}) {
    std::vector<double> values(static_cast<size_t>(n), -kReduceInfinity);
    std::vector<double> wanted(values.size(), 0);
    values[static_cast<size_t>(n) / 2] = -1000;
    wanted[static_cast<size_t>(n) / 2] = 1;
    EXPECT_EQ(values_of(softmax(array_of(values, {n}, float32))), wanted) << n;
  }
}

TEST_P(SoftmaxTest, a_nan_beside_nothing_but_minus_infinity_decides) {
  for (const int64_t n : {40, 2000, 20'000}) {
    std::vector<double> values(static_cast<size_t>(n), -kReduceInfinity);
    values[0] = 1;
    values[static_cast<size_t>(n) / 2] = kNaN;
    for (const double v : values_of(softmax(array_of(values, {n}, float32)))) {
      ASSERT_TRUE(std::isnan(v)) << n;
    }
    values.assign(values.size(), -kReduceInfinity);  // nothing is a part of nothing
    for (const double v : values_of(softmax(array_of(values, {n}, float32)))) {
      ASSERT_TRUE(std::isnan(v)) << n;
    }
  }
}

// Elements that are far from zero differ by little.
TEST_P(SoftmaxTest, large_elements_are_told_apart) {
  for (const int64_t n : {40, 5000}) {
    std::vector<double> values(static_cast<size_t>(n), -65'504);
    values[1] = 65'504;
    values[2] = 65'504 - 32;
    values[static_cast<size_t>(n) - 1] = 65'504;
    std::vector<double> wanted(values.size(), 0);
    wanted[1] = wanted[static_cast<size_t>(n) - 1] = 0.5;
    wanted[2] = std::exp(-32.0) / 2;
    numeric::expect_close(values_of(softmax(array_of(values, {n}, float16))), wanted, float16, 16,
                          std::to_string(n));
  }
}

TEST_P(SoftmaxTest, agrees_with_double_precision) {
  for (const Dtype dtype : {float32, float16, bfloat16, int32}) {
    check_softmax({5, 77}, -1, dtype, Lie::contiguous);
    check_softmax({9, 5}, 0, dtype, Lie::contiguous);
    check_softmax({9, 77}, 0, dtype, Lie::contiguous);
    check_softmax({3, 4, 5}, 1, dtype, Lie::reversed);
    check_softmax({20'001}, 0, dtype, Lie::contiguous);
    check_softmax({20'001, 2}, 0, dtype, Lie::contiguous);
    check_softmax({20'001, 9}, 0, dtype, Lie::contiguous);
  }
}

TEST_P(SoftmaxTest, nightly_all_dtypes_axes_and_layouts_agree_with_double_precision) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      for (const int64_t axis : {0, 1, 2}) {
        check_softmax({3, 50, 4}, axis, static_cast<Dtype>(d), lie);
        check_softmax({40, 2, 33}, axis, static_cast<Dtype>(d), lie);
      }
      check_softmax({2, 9000}, 1, static_cast<Dtype>(d), lie);
      check_softmax({9000, 2}, 0, static_cast<Dtype>(d), lie);
    }
  }
}

TEST_P(SoftmaxTest, far_apart_and_infinite_elements_are_weighed_right) {
  for (const int64_t n : {4, 20'000}) {
    std::vector<double> values(static_cast<size_t>(n), -kReduceInfinity);
    values[1] = 1e30;
    values[3] = -1e30;
    std::vector<double> wanted(values.size(), 0);
    wanted[1] = 1;
    EXPECT_EQ(values_of(softmax(array_of(values, {n}, float32))), wanted);
    values[0] = kNaN;
    for (const double v : values_of(softmax(array_of(values, {n}, float32)))) {
      ASSERT_TRUE(std::isnan(v));
    }
  }
  // Down to the smallest that float32 has.
  const std::vector<double> got = values_of(softmax(array_of({0, -80, -86, -100}, {4}, float32)));
  EXPECT_NEAR(got[1] / std::exp(-80.0), 1, 1e-6);
  EXPECT_NEAR(got[2] / std::exp(-86.0), 1, 1e-6);
  EXPECT_LT(got[3], 1e-37);
}

TEST_P(SoftmaxTest, over_no_elements_is_empty) {
  EXPECT_TRUE(values_of(softmax(zeros({0, 3}))).empty());
  EXPECT_TRUE(values_of(softmax(zeros({3, 0}))).empty());
}

}  // namespace
}  // namespace holdfast
