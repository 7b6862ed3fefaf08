#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/device.h"
#include "holdfast/eval.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Doubles = std::vector<double>;

double combined(double before, double update, Update how, Dtype dtype) {
  switch (how) {
    case Update::set: return update;
    case Update::add: return numeric::rounded(before + update, dtype);
    case Update::multiply: return numeric::rounded(before * update, dtype);
    case Update::max: return std::isnan(update) || update > before ? update : before;
    case Update::min: break;
  }
  return std::isnan(update) || update < before ? update : before;
}

// Values [outer, n, inner] with `positions` updates for each outer and inner, one after another.
template <typename At>
Doubles updated(Doubles values, const Shape& shape, size_t axis, const Doubles& updates,
                int64_t positions, Update how, Dtype dtype, At position_at) {
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t from = (o * positions + p) * inner + i;
        int64_t at = position_at(p, from);
        if (at < 0) at += shape[axis];
        if (at < 0 || at >= shape[axis]) continue;
        double& value = values[static_cast<size_t>((o * shape[axis] + at) * inner + i)];
        value = combined(value, updates[static_cast<size_t>(from)], how, dtype);
      }
    }
  }
  return values;
}

// Many positions, in disorder: most rows of few have several, and some positions are outside.
Doubles many_positions(size_t count, int64_t rows, bool negative) {
  Doubles at(count);
  for (size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<int64_t>((i * 2654435761U >> 7) % 1000003);
    at[i] = static_cast<double>(mixed % (rows + 2) - (negative ? 1 + rows / 2 : 0));
  }
  return at;
}

// The result is the same to the last bit, as updates apply one after another. The arrays begin
// `skip` elements after memory does.
void check_order(const Shape& shape, size_t axis, size_t count, Dtype dtype, Dtype positions,
                 Update how, int64_t skip = 0) {
  const std::string what = std::string(to_string(dtype)) + to_string(shape) + " axis " +
                           std::to_string(axis) + ", " + std::to_string(count) + " of " +
                           std::string(to_string(positions)) + " how " +
                           std::to_string(static_cast<int>(how));
  const auto begun = [&](const Doubles& values, const Shape& of) {
    Doubles more(static_cast<size_t>(skip), 9);
    more.insert(more.end(), values.begin(), values.end());
    const Array all = array_of(more, {static_cast<int64_t>(more.size())}, dtype);
    return reshape(slice(all, {{.start = skip}}), of);
  };
  const Doubles at = many_positions(count, shape[axis], is_signed_integer(positions));
  const Doubles values = numeric::numbers(static_cast<size_t>(elements(shape)), -3, 3, dtype);
  Shape taken = shape;
  taken[axis] = static_cast<int64_t>(count);
  const Doubles updates = numeric::numbers(static_cast<size_t>(elements(taken)), -3, 3, dtype, 1);
  const Array got =
      scatter(begun(values, shape), array_of(at, {static_cast<int64_t>(count)}, positions),
              begun(updates, taken), static_cast<int64_t>(axis), how);
  EXPECT_EQ(
      values_of(got),
      updated(values, shape, axis, updates, static_cast<int64_t>(count), how, dtype,
              [&](int64_t p, int64_t) { return static_cast<int64_t>(at[static_cast<size_t>(p)]); }))
      << what;
}

class ScatterOrder : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(, ScatterOrder, both_styles(), style_name);

TEST_P(ScatterOrder, is_that_of_positions_however_many_meet) {
  for (const Update how : {Update::set, Update::add, Update::multiply, Update::max, Update::min}) {
    for (const int64_t rows : {1, 3, 300}) {
      check_order({rows, 4}, 0, 100, float32, int32, how);
    }
  }
}

TEST_P(ScatterOrder, holds_around_the_lengths_of_blocks_and_digits) {
  for (const size_t count : {8, 9, 31, 33, 2047, 2048, 2049, 5000}) {
    check_order({7}, 0, count, float32, int64, Update::add);
    check_order({7}, 0, count, int32, uint32, Update::set);
  }
  for (const int64_t rows : {254, 255, 256, 257, 70'000}) {
    check_order({rows}, 0, 4100, float32, int32, Update::add);
    check_order({rows}, 0, 4100, float32, uint32, Update::set);
  }
}

TEST_P(ScatterOrder, holds_for_rows_of_any_width_and_place) {
  for (const int64_t inner : {1, 2, 3, 4, 8, 12, 31, 64, 260}) {
    for (const int64_t skip : {0, 1}) {
      for (const Update how : {Update::set, Update::add}) {
        check_order({2, 5, inner}, 1, 20, float32, int32, how, skip);
        check_order({5, inner}, 0, 20, float16, int32, how, skip);
        check_order({5, inner}, 0, 20, uint8, uint8, how, skip);
      }
    }
  }
}

TEST_P(ScatterOrder, without_a_position_inside_nothing_changes) {
  const Array far = full({40}, 1000, int32);
  for (const Update how : {Update::set, Update::add}) {
    EXPECT_EQ(scatter(ones({3, 2}), far, zeros({40, 2}), 0, how).to_vector<float>(),
              std::vector<float>(6, 1));
  }
}

void check_scatter(const Shape& shape, size_t axis, Dtype dtype, Dtype positions, Lie lie,
                   Update how) {
  const std::string what = std::string(to_string(dtype)) + to_string(shape) + " axis " +
                           std::to_string(axis) + " " + numeric::to_string(lie) + " how " +
                           std::to_string(static_cast<int>(how));
  const auto count = [](const Shape& s) { return static_cast<size_t>(elements(s)); };
  const Doubles values = numeric::numbers(count(shape), -3, 3, dtype);
  const Array a = numeric::laid_out(array_of(values, shape, dtype), lie);
  // One is there three times, and the last is outside.
  Doubles at{0, 2, 1, 1, 1, 100};
  if (is_signed_integer(positions)) at = {-1, 2, 0, -3, 0, -100};
  const Array indices = numeric::laid_out(array_of(at, {2, 3}, positions), lie);

  Shape taken = take(a, indices, static_cast<int64_t>(axis)).shape();
  const Doubles updates = numeric::numbers(count(taken), -3, 3, dtype, 1);
  const Array got = scatter(a, indices, numeric::laid_out(array_of(updates, taken, dtype), lie),
                            static_cast<int64_t>(axis), how);
  ASSERT_EQ(got.shape(), shape) << what;
  ASSERT_EQ(got.dtype(), dtype) << what;
  numeric::expect_close(
      values_of(got),
      updated(values, shape, axis, updates, 6, how, dtype,
              [&](int64_t p, int64_t) { return static_cast<int64_t>(at[static_cast<size_t>(p)]); }),
      dtype, 4, what);

  Shape each = shape;
  each[axis] = 2;
  Doubles along(count(each));
  for (size_t i = 0; i < along.size(); ++i) along[i] = at[(i * 7 + i / 3) % at.size()];
  const Doubles more = numeric::numbers(count(each), -3, 3, dtype, 2);
  const Array put =
      scatter_along_axis(a, numeric::laid_out(array_of(along, each, positions), lie),
                         array_of(more, each, dtype), static_cast<int64_t>(axis), how);
  numeric::expect_close(values_of(put),
                        updated(values, shape, axis, more, 2, how, dtype,
                                [&](int64_t, int64_t from) {
                                  return static_cast<int64_t>(along[static_cast<size_t>(from)]);
                                }),
                        dtype, 4, "along, " + what);
}

TEST(Scatter, updates_elements_one_after_another) {
  for (const Update how : {Update::set, Update::add, Update::multiply, Update::max, Update::min}) {
    check_scatter({5, 7}, 0, float32, int32, Lie::contiguous, how);
  }
  check_scatter({4, 5}, 1, float16, uint32, Lie::transposed, Update::add);
  check_scatter({3, 4, 5}, 1, bfloat16, int64, Lie::reversed, Update::set);
  check_scatter({6}, 0, int32, uint8, Lie::spread, Update::add);
  check_scatter({3, 4}, 0, bool_, int16, Lie::offset, Update::max);
}

TEST(Scatter, nightly_all_dtypes_axes_layouts_and_updates) {
  for (const Dtype dtype : {bool_, int8, uint8, int16, uint16, int32, uint32, int64, uint64,
                            float16, bfloat16, float32, float64}) {
    for (const Update how :
         {Update::set, Update::add, Update::multiply, Update::max, Update::min}) {
      for (const Lie lie : {Lie::contiguous, Lie::transposed, Lie::reversed, Lie::spread}) {
        for (size_t axis = 0; axis < 3; ++axis) {
          check_scatter({3, 4, 5}, axis, dtype, axis == 1 ? uint32 : int64, lie, how);
        }
      }
    }
  }
}

TEST(Scatter, one_value_for_all_is_broadcast_and_converted) {
  const Array got = scatter(zeros({4}, int32), Array({1, 3}, {2}), full({}, 7.9));
  EXPECT_EQ(got.to_vector<int32_t>(), (std::vector<int32_t>{0, 7, 0, 7}));
}

TEST(Scatter, one_position_takes_the_axis_away) {
  const Array got =
      scatter(zeros({2, 3}, int32), Array(std::vector<int32_t>{1}, Shape{}), Array({4, 5}, {2}), 1);
  EXPECT_EQ(got.to_vector<int32_t>(), (std::vector<int32_t>{0, 4, 0, 0, 5, 0}));
}

TEST(Scatter, is_the_inverse_of_take) {
  const Array a = reshape(arange(0, 24, 1, int32), {4, 6});
  const Array order({2, 0, 3, 1}, {4});
  EXPECT_EQ(scatter(zeros_like(a), order, take(a, order, 0), 0).to_vector<int32_t>(),
            a.to_vector<int32_t>());
}

TEST(Scatter, a_nan_is_the_largest_and_the_smallest) {
  const Array nan = full({}, std::nan(""));
  for (const Update how : {Update::max, Update::min}) {
    EXPECT_TRUE(std::isnan(scatter(ones({1}), zeros({1}, int32), nan, 0, how).item<float>()));
  }
}

TEST(Scatter, without_elements_or_positions_nothing_changes) {
  EXPECT_EQ(scatter(ones({3}), zeros({0}, int32), zeros({0})).to_vector<float>(),
            (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(scatter(ones({0, 2}), zeros({1}, int32), zeros({1, 2})).to_vector<float>(),
            std::vector<float>());
}

TEST(Scatter, leaves_an_array_that_others_see_and_takes_the_memory_of_one_that_none_does) {
  const Array seen = ones({8});
  eval(seen);
  const Array changed = scatter(seen, Array({3}, {1}), full({}, 5.0));
  EXPECT_EQ(changed.to_vector<float>(), (std::vector<float>{1, 1, 1, 5, 1, 1, 1, 1}));
  EXPECT_EQ(seen.to_vector<float>(), std::vector<float>(8, 1));

  Array mine = ones({8});
  eval(mine);
  const uint64_t donated = stats().donated;
  mine = scatter(std::move(mine), Array({3}, {1}), full({}, 5.0));
  EXPECT_EQ(mine.to_vector<float>(), (std::vector<float>{1, 1, 1, 5, 1, 1, 1, 1}));
  EXPECT_GT(stats().donated, donated);
}

TEST(Scatter, what_does_not_fit_is_refused) {
  const Array a = zeros({2, 3});
  EXPECT_THAT(
      [&] {
        (void)scatter(a, zeros({1}), zeros({1, 3}));
      },
      ThrowsMessage<UsageError>(HasSubstr("scatter: positions of the dtype float32")));
  EXPECT_THROW((void)scatter(a, zeros({1}, int32), zeros({1, 3}), 2), UsageError);
  EXPECT_THROW((void)scatter(a, zeros({1}, int32), zeros({1, 4})), UsageError);
  EXPECT_THROW((void)scatter_along_axis(a, zeros({2}, int32), zeros({2}), 0), UsageError);
  EXPECT_THROW((void)scatter_along_axis(a, zeros({2, 2}, int32), zeros({2, 2}), 0), UsageError);
}

}  // namespace
}  // namespace holdfast
