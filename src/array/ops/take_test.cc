#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

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
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<double> counted(int64_t count, Dtype dtype) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  for (double& v : values) v = dtype == bool_ ? static_cast<int>(v) % 3 == 0 : std::fmod(v, 100);
  return values;
}

// NaN for floats, else 0.
double missing(Dtype dtype) {
  return is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 0;
}

// From values [outer, n, inner], for each outer, position and inner.
template <typename At>
std::vector<double> taken(const std::vector<double>& values, const Shape& shape, size_t axis,
                          int64_t positions, Dtype dtype, At position_at) {
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<double> result;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t i = 0; i < inner; ++i) {
        int64_t at = position_at(o, p, i, inner);
        if (at < 0) at += shape[axis];
        const bool inside = at >= 0 && at < shape[axis];
        result.push_back(inside ? values[static_cast<size_t>((o * shape[axis] + at) * inner + i)]
                                : missing(dtype));
      }
    }
  }
  return result;
}

void expect_same(const Array& got, const std::vector<double>& wanted, const std::string& what) {
  numeric::expect_close(values_of(got), wanted, got.dtype(), 0, what);
}

void check(const Shape& shape, size_t axis, Dtype dtype, Dtype positions, Lie lie) {
  const std::vector<double> values = counted(elements(shape), dtype);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  const std::string what = std::string(to_string(dtype)) + to_string(shape) + " at " +
                           to_string(positions) + " of " + std::to_string(axis) + " " +
                           numeric::to_string(lie);
  // The last is outside.
  std::vector<double> at{0, 2, 1, 1, 0, 100};
  if (is_signed_integer(positions)) at = {-1, 2, 0, -3, 1, -100};
  const Array indices = numeric::laid_out(array_of(at, {2, 3}, positions), lie);
  const Array got = take(a, indices, static_cast<int64_t>(axis));
  ASSERT_EQ(got.ndim(), shape.size() + 1) << what;
  ASSERT_EQ(got.dtype(), dtype);
  expect_same(got,
              taken(values, shape, axis, 6, dtype,
                    [&](int64_t, int64_t p, int64_t, int64_t) {
                      return static_cast<int64_t>(at[static_cast<size_t>(p)]);
                    }),
              "take " + what);

  Shape each = shape;
  each[axis] = 2;
  std::vector<double> along(static_cast<size_t>(elements(each)));
  for (size_t i = 0; i < along.size(); ++i) along[i] = at[(i * 7 + i / 3) % at.size()];
  const Array picked = take_along_axis(a, numeric::laid_out(array_of(along, each, positions), lie),
                                       static_cast<int64_t>(axis));
  ASSERT_EQ(picked.shape(), each) << what;
  expect_same(
      picked,
      taken(values, shape, axis, 2, dtype,
            [&](int64_t o, int64_t p, int64_t i, int64_t inner) {
              return static_cast<int64_t>(along[static_cast<size_t>((o * 2 + p) * inner + i)]);
            }),
      "take_along_axis " + what);
}

TEST(Take, gives_the_elements_at_positions) {
  for (const Dtype dtype : {float32, float16, bfloat16, int32}) {
    check({5, 7}, 0, dtype, int32, Lie::contiguous);
    check({4, 5}, 1, dtype, uint32, Lie::transposed);
    check({2, 4, 3}, 1, dtype, int64, Lie::reversed);
  }
}

TEST(Take, nightly_all_dtypes_axes_and_layouts) {
  const Dtype kinds[] = {int8, uint8, int16, uint16, int32, uint32, int64, uint64};
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      const Dtype positions = kinds[(d + static_cast<unsigned>(lie)) % std::size(kinds)];
      check({4}, 0, static_cast<Dtype>(d), positions, lie);
      for (const size_t axis : {0U, 1U, 2U}) {
        check({3, 4, 5}, axis, static_cast<Dtype>(d), positions, lie);
      }
      check({2, 3, 4, 3}, 2, static_cast<Dtype>(d), positions, lie);
    }
  }
  for (const Dtype positions : kinds) check({6, 3}, 0, float32, positions, Lie::contiguous);
}

TEST(Take, without_an_axis_is_of_the_flattened_array) {
  const Array a = transpose(Array({1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(take(a, Array({0, 1, -1}, {3})).to_vector<int32_t>(), (std::vector<int32_t>{1, 4, 6}));
}

TEST(Take, one_position_takes_the_axis_away) {
  const Array a({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(take(a, Array(int32_t{1}), 0).shape(), Shape{3});
  EXPECT_EQ(take(a, Array(int32_t{1}), 0).to_vector<int32_t>(), (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(take(a, Array(int32_t{4})).item<int32_t>(), 5);
}

TEST(Take, large_positions_are_outside_whatever_their_dtype) {
  const Array a({1.0F, 2.0F}, {2});
  EXPECT_TRUE(std::isnan(take(a, Array({~uint64_t{0}}, {1})).item<float>()));
  EXPECT_TRUE(std::isnan(take(a, Array({uint32_t{0xffffffff}}, {1})).item<float>()));
  EXPECT_TRUE(std::isnan(take(a, Array({std::numeric_limits<int64_t>::min()}, {1})).item<float>()));
  EXPECT_EQ(take(Array({true, true}, {2}), Array({2}, {1})).item<bool>(), false);
}

TEST(Take, without_elements) {
  const Array none({0}, {1});
  EXPECT_EQ(take(zeros({0, 3}, int32), none, 0).to_vector<int32_t>(), std::vector<int32_t>(3, 0));
  EXPECT_TRUE(std::isnan(take(zeros({0}), none).item<float>()));
  EXPECT_TRUE(values_of(take(zeros({3}), zeros({0}, int32))).empty());
  EXPECT_TRUE(values_of(take(zeros({3, 0}), none, 0)).empty());
  EXPECT_TRUE(values_of(take_along_axis(zeros({3, 2}), zeros({0, 2}, int32), 0)).empty());
}

TEST(Take, rows_of_a_broadcast_table_are_read_in_place) {
  const Array a = broadcast_to(Array({1, 2, 3}, {3, 1}), {3, 4});
  EXPECT_EQ(take(a, Array({2, 0}, {2}), 0).to_vector<int32_t>(),
            (std::vector<int32_t>{3, 3, 3, 3, 1, 1, 1, 1}));
}

TEST(Take, what_does_not_fit_is_refused) {
  const Array a = zeros({2, 3});
  EXPECT_THROW((void)take(a, zeros({1}), 0), UsageError);
  EXPECT_THROW((void)take(a, zeros({1}, bool_), 0), UsageError);
  EXPECT_THROW((void)take(a, zeros({1}, int32), 2), UsageError);
  EXPECT_THROW((void)take_along_axis(a, zeros({2}, int32), 0), UsageError);
  EXPECT_THROW((void)take_along_axis(a, zeros({2, 2}, int32), 0), UsageError);
}

TEST(Take, beside_an_axis_there_are_at_most_as_many_elements_as_a_grid_is_long) {
  const Array before = broadcast_to(zeros({1}, uint8), {1 << 16, 1 << 15, 2});
  const Array behind = broadcast_to(zeros({1}, uint8), {2, 1 << 16, 1 << 15});
  const auto refuses = [](const Array& a, int64_t axis) {
    EXPECT_THAT([&] { (void)take(a, zeros({1}, int32), axis); },
                ThrowsMessage<UsageError>(HasSubstr("take from parts of it")));
    EXPECT_THAT([&] { (void)take_along_axis(a, astype(a, int32), axis); },
                ThrowsMessage<UsageError>(HasSubstr("take_along_axis: the axes on one side")));
  };
  refuses(before, 2);
  refuses(behind, 0);
  EXPECT_NO_THROW((void)take(before, zeros({1}, int32), 0));
}

class TakeRows : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(, TakeRows, both_styles(), style_name);

TEST_P(TakeRows, of_any_width_and_place_have_each_element) {
  for (const Dtype dtype : {float32, float16, int8}) {
    for (const int64_t inner : {1, 2, 3, 4, 8, 12, 31, 64, 260}) {
      for (const int64_t skip : {0, 1}) {
        const int64_t count = 2 * 5 * inner;
        const std::vector<double> values = counted(count + skip, dtype);
        const Array all = array_of(values, {count + skip}, dtype);
        const Array a = reshape(slice(all, {{.start = skip}}), {2, 5, inner});
        const std::vector<int64_t> at{4, 0, -1, 7, 2, 2, -6};
        const Array positions = Array(std::vector<int32_t>(at.begin(), at.end()), {7});
        expect_same(
            take(a, positions, 1),
            taken({values.begin() + skip, values.end()}, {2, 5, inner}, 1, 7, dtype,
                  [&](int64_t, int64_t p, int64_t, int64_t) { return at[static_cast<size_t>(p)]; }),
            std::to_string(inner) + " from " + std::to_string(skip));
        if (skip == 0) continue;
        // Rows that lie further apart than they are wide.
        const Array wide = slice(reshape(all, {1, count + skip}), {{}, {.stop = count}});
        expect_same(
            take(slice(reshape(wide, {10, inner}), {{.step = 2}}), positions, 0),
            values_of(take(copy(slice(reshape(wide, {10, inner}), {{.step = 2}})), positions, 0)),
            "every second row");
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
