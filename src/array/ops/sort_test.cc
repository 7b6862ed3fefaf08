#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "holdfast/array/ops/axis_test.h"
#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/sorting.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class SortTest : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(BothStyles, SortTest, both_styles(), style_name);

constexpr double kSortInfinity = std::numeric_limits<double>::infinity();

// NaN after everything.
bool sorts_before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

// Many equal ones; of floats also infinities, NaN and both zeros.
std::vector<double> sortable_values(int64_t count, Dtype dtype, uint32_t seed) {
  std::mt19937 random(seed);
  const bool has_sign = is_floating(dtype) || is_signed_integer(dtype);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    v = static_cast<double>(random() % 200) - (has_sign ? 100 : 0);
    if (is_floating(dtype)) {
      v /= 4;
      switch (random() % 40) {
        case 0: v = std::nan(""); break;
        case 1: v = kSortInfinity; break;
        case 2: v = -kSortInfinity; break;
        case 3: v = -0.0; break;
        case 4: v = -std::nan(""); break;
        default: break;
      }
    }
    v = numeric::rounded(v, dtype);
  }
  return values;
}

void expect_equal(const std::vector<double>& got, const std::vector<double>& wanted,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    ASSERT_EQ(got[i], wanted[i]) << what << ": element " << i;
  }
}

void check_sort(const Shape& shape, int64_t axis, Dtype dtype, Lie lie, bool descending = false) {
  const std::vector<double> values = sortable_values(elements(shape), dtype, 5);
  std::vector<double> wanted(values.size());
  std::vector<double> positions(values.size());
  for (const auto& row : numeric::rows_along(shape, axis)) {
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      const double x = values[row[a]];
      const double y = values[row[b]];
      return descending ? sorts_before(y, x) : sorts_before(x, y);
    });
    for (size_t k = 0; k < row.size(); ++k) {
      wanted[row[k]] = values[row[order[k]]];
      positions[row[k]] = static_cast<double>(order[k]);
    }
  }
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  const std::string what = std::string(to_string(dtype)) + to_string(shape) + " along " +
                           std::to_string(axis) + " " + numeric::to_string(lie) +
                           (descending ? " descending" : "");
  expect_equal(values_of(sort(a, axis, descending)), wanted, "sort of " + what);
  expect_equal(values_of(argsort(a, axis, descending)), positions, "argsort of " + what);
}

// Around what threads and threadgroups sort at once, and merge.
TEST_P(SortTest, rows_of_any_length_agree_with_a_stable_sort) {
  for (const int64_t n : {1, 2, 8, 9, 32, 33, 255, 1024, 1025, 3000}) {
    check_sort({3, n}, 1, float32, Lie::contiguous);
  }
  check_sort({9'011}, 0, float32, Lie::contiguous);
  check_sort({2, 5000}, 1, float32, Lie::offset, true);
}

TEST_P(SortTest, any_axis_and_layout_agree_with_a_stable_sort) {
  check_sort({40, 13}, 0, float32, Lie::contiguous);
  check_sort({2100, 3}, 0, float32, Lie::transposed, true);
  check_sort({4, 50, 6}, 1, float32, Lie::reversed);
  check_sort({3, 4, 70}, -1, float32, Lie::spread);
  check_sort({600, 10}, -1, float32, Lie::contiguous);
}

TEST(Sort, all_dtypes_agree_with_a_stable_sort) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    check_sort({2, 60}, 1, static_cast<Dtype>(d), Lie::contiguous);
  }
  EXPECT_EQ(sort(zeros({3}, bool_)).dtype(), bool_);
  EXPECT_EQ(argsort(zeros({3}, float16)).dtype(), uint32);
}

TEST_P(SortTest, nightly_all_dtypes_axes_and_layouts) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      for (const bool descending : {false, true}) {
        for (const int64_t axis : {0, 1, 2}) {
          check_sort({9, 1100, 3}, axis, static_cast<Dtype>(d), lie, descending);
        }
      }
    }
  }
}

TEST_P(SortTest, the_ends_of_integers_stay_in_their_places) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(sort(Array({kMost, int64_t{0}, kLeast, int64_t{-1}}, {4})).to_vector<int64_t>(),
              ElementsAre(kLeast, -1, 0, kMost));
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(sort(Array({kAll, uint64_t{1}, kAll - 1}, {3})).to_vector<uint64_t>(),
              ElementsAre(1U, kAll - 1, kAll));
  // As many as the largest key, which also stands for what is beyond the end of a block.
  const std::vector<uint8_t> bytes(100, 255);
  EXPECT_EQ(sort(Array(bytes, {100})).to_vector<uint8_t>(), bytes);
  std::vector<uint32_t> order(100);
  std::iota(order.begin(), order.end(), 0U);
  EXPECT_EQ(argsort(Array(bytes, {100})).to_vector<uint32_t>(), order);
}

TEST(Sort, positions_give_the_sorted_array) {
  const Array x = random_normal({3, 1500}, float32, RandomKey{4});
  EXPECT_EQ(values_of(take_along_axis(x, argsort(x), 1)), values_of(sort(x)));
}

TEST_P(SortTest, topk_has_the_largest_elements_largest_first) {
  const Array x({3, 1, 4, 1, 5, 9, 2, 6}, {2, 4});
  EXPECT_THAT(topk(x, 2).to_vector<int32_t>(), ElementsAre(4, 3, 9, 6));
  EXPECT_THAT(topk(x, 1, 0).to_vector<int32_t>(), ElementsAre(5, 9, 4, 6));
  EXPECT_EQ(topk(x, 0).shape(), (Shape{2, 0}));
  EXPECT_TRUE(std::isnan(values_of(topk(array_of({1, std::nan("")}, {2}, float32), 1))[0]));
  // Runs are cut as they are merged.
  const Array all = random_normal({2, 5000}, float32, RandomKey{9});
  for (const int64_t k : {1, 40, 1500, 5000}) {
    const Array wanted = slice(sort(all, -1, true), {{}, {.stop = k}});
    EXPECT_EQ(values_of(topk(all, k)), values_of(wanted)) << k;
  }
  EXPECT_THAT([&] { (void)topk(x, 5); },
              ThrowsMessage<UsageError>(HasSubstr("axis 1 of shape (2, 4) has no 5 elements")));
  EXPECT_THROW((void)topk(x, -1), UsageError);
}

TEST(Sort, empty_arrays_are_sorted_and_scalars_have_no_axis) {
  EXPECT_TRUE(values_of(sort(zeros({0}))).empty());
  EXPECT_EQ(argsort(zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_TRUE(values_of(sort(zeros({0, 3}), 1)).empty());
  EXPECT_THROW((void)sort(Array(1.0F)), UsageError);
  EXPECT_THROW((void)argsort(zeros({2}), 1), UsageError);
}

double insertion_point(const std::vector<double>& sorted, double value, Side side) {
  const auto at = side == Side::left
                      ? std::lower_bound(sorted.begin(), sorted.end(), value, sorts_before)
                      : std::upper_bound(sorted.begin(), sorted.end(), value, sorts_before);
  return static_cast<double>(at - sorted.begin());
}

TEST(Sort, searchsorted_finds_where_values_belong) {
  for (const Dtype dtype : {float32, float16, int32}) {
    std::vector<double> sorted = sortable_values(301, dtype, 1);
    std::ranges::stable_sort(sorted, sorts_before);
    const std::vector<double> values = sortable_values(60, dtype, 2);
    const Array a = numeric::laid_out(array_of(sorted, {301}, dtype), Lie::spread);
    const Array v = numeric::laid_out(array_of(values, {6, 10}, dtype), Lie::transposed);
    for (const Side side : {Side::left, Side::right}) {
      std::vector<double> wanted;
      for (const double value : values) wanted.push_back(insertion_point(sorted, value, side));
      const Array found = searchsorted(a, v, side);
      EXPECT_EQ(found.shape(), (Shape{6, 10}));
      EXPECT_EQ(found.dtype(), uint32);
      EXPECT_EQ(values_of(found), wanted) << to_string(dtype);
    }
  }
}

TEST(Sort, searchsorted_promotes_and_knows_empty_arrays) {
  const Array ints({1, 3, 5}, {3});
  EXPECT_THAT(searchsorted(ints, array_of({2.5, 3, 9}, {3}, float32)).to_vector<uint32_t>(),
              ElementsAre(1, 1, 3));
  EXPECT_EQ(searchsorted(ints, Array(4)).item<uint32_t>(), 2U);
  EXPECT_THAT(searchsorted(zeros({0}), zeros({2})).to_vector<uint32_t>(), ElementsAre(0, 0));
  EXPECT_TRUE(values_of(searchsorted(ints, zeros({0}, int32))).empty());
  EXPECT_THAT(searchsorted(flip(Array({5, 3, 1}, {3})), ints, Side::right).to_vector<uint32_t>(),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(
      [] {
        (void)searchsorted(zeros({2, 2}), zeros({1}));
      },
      ThrowsMessage<UsageError>(HasSubstr("must have one axis")));
}

}  // namespace
}  // namespace holdfast
