#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Array counted_up(const Shape& shape) { return reshape(arange(elements(shape), int32), shape); }

TEST(Rearrange, roll_moves_elements_around_the_end) {
  const Array x = counted_up({2, 3});
  EXPECT_THAT(values_of(roll(x, 1)), ElementsAre(5, 0, 1, 2, 3, 4));
  EXPECT_EQ(roll(x, 1).shape(), (Shape{2, 3}));
  EXPECT_THAT(values_of(roll(x, 1, 1)), ElementsAre(2, 0, 1, 5, 3, 4));
  EXPECT_THAT(values_of(roll(x, -1, -1)), ElementsAre(1, 2, 0, 4, 5, 3));
  EXPECT_THAT(values_of(roll(x, 7, 1)), ElementsAre(2, 0, 1, 5, 3, 4));
  EXPECT_THAT(values_of(roll(transpose(x), 1, 0)), ElementsAre(2, 5, 0, 3, 1, 4));
  EXPECT_THAT(values_of(roll(x, 3, 1)), ElementsAre(0, 1, 2, 3, 4, 5));
  const std::array<int64_t, 2> shifts{1, 1};
  const std::array<int64_t, 2> axes{0, 1};
  EXPECT_THAT(values_of(roll(x, shifts, axes)), ElementsAre(5, 3, 4, 2, 0, 1));
  EXPECT_THAT(values_of(roll(zeros({0, 3}), 1)), IsEmpty());
  EXPECT_EQ(roll(Array(5), 3).item<int32_t>(), 5);
  EXPECT_THROW((void)roll(x, 1, 2), UsageError);
  EXPECT_THAT([&] { (void)roll(x, shifts, std::span(axes).first(1)); },
              ThrowsMessage<UsageError>(HasSubstr("roll: 2 numbers of places for 1 axes")));
}

TEST(Rearrange, tile_lays_the_whole_array_side_by_side) {
  const Array x = counted_up({2, 2});
  EXPECT_THAT(values_of(tile(x, {2})), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(values_of(tile(x, {2, 1})), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(tile(x, {3, 1, 2}).shape(), (Shape{3, 2, 4}));
  EXPECT_THAT(values_of(tile(x, {2, 1, 1})), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(values_of(tile(transpose(x), {1, 2})), ElementsAre(0, 2, 0, 2, 1, 3, 1, 3));
  EXPECT_THAT(values_of(tile(Array(7), {3})), ElementsAre(7, 7, 7));
  EXPECT_EQ(tile(Array(7), {}).shape(), Shape{});
  EXPECT_EQ(tile(x, {0, 2}).shape(), (Shape{0, 4}));
  EXPECT_EQ(tile(zeros({0, 2}), {3, 2}).shape(), (Shape{0, 4}));
  EXPECT_THAT([&] { (void)tile(x, {-1}); },
              ThrowsMessage<UsageError>(HasSubstr("tile: -1 repetitions")));
  EXPECT_THROW((void)tile(x, {kMaxLength, kMaxLength}), UsageError);
}

TEST(Rearrange, repeat_gives_each_element_again) {
  const Array x = counted_up({2, 2});
  EXPECT_THAT(values_of(repeat(x, 2)), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(values_of(repeat(x, 2, 0)), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(values_of(repeat(transpose(x), 2, -1)), ElementsAre(0, 0, 2, 2, 1, 1, 3, 3));
  EXPECT_THAT(values_of(repeat(flip(x), 2, 1)), ElementsAre(3, 3, 2, 2, 1, 1, 0, 0));
  EXPECT_THAT(values_of(repeat(Array(5), 2)), ElementsAre(5, 5));
  EXPECT_EQ(repeat(x, 0, 1).shape(), (Shape{2, 0}));
  EXPECT_EQ(repeat(zeros({0, 2}), 3, 0).shape(), (Shape{0, 2}));
  EXPECT_THROW((void)repeat(x, -1), UsageError);
  EXPECT_THROW((void)repeat(x, 1, 2), UsageError);
}

// Arrays of eight axes have room for no other, through which elements would be read again.
TEST(Rearrange, arrays_of_eight_axes_are_repeated_too) {
  const Shape shape{2, 1, 2, 1, 3, 1, 2, 2};
  const Array x = counted_up(shape);
  const Array tiled = tile(x, {2, 1, 1, 1, 2, 1, 1, 3});
  EXPECT_EQ(tiled.shape(), (Shape{4, 1, 2, 1, 6, 1, 2, 6}));
  const Array threes[] = {x, x, x};
  Array wanted = concatenate(threes, 7);
  const std::array both{wanted, wanted};
  wanted = concatenate(both, 4);
  EXPECT_EQ(values_of(tiled), values_of(concatenate({wanted, wanted}, 0)));
  EXPECT_EQ(values_of(slice(repeat(x, 2, 4), {{}, {}, {}, {}, {.step = 2}})), values_of(x));
}

TEST(Rearrange, outer_multiplies_all_with_all) {
  const Array x({1, 2}, {2});
  EXPECT_THAT(values_of(outer(x, Array({3, 4, 5}, {3}))), ElementsAre(3, 4, 5, 6, 8, 10));
  EXPECT_EQ(outer(zeros({2, 2}), zeros({3})).shape(), (Shape{4, 3}));
  EXPECT_EQ(outer(zeros({0}), zeros({3}, float16)).shape(), (Shape{0, 3}));
  EXPECT_EQ(outer(Array(2), Array(3)).item<int32_t>(), 6);
  EXPECT_EQ(outer(x, zeros({1}, float16)).dtype(), float16);
}

TEST(Rearrange, diff_subtracts_neighbours) {
  const Array x({1, 4, 9, 16, 2, 3, 5, 8}, {2, 4});
  EXPECT_THAT(values_of(diff(x)), ElementsAre(3, 5, 7, 1, 2, 3));
  EXPECT_THAT(values_of(diff(x, 2)), ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(values_of(diff(x, 1, 0)), ElementsAre(1, -1, -4, -8));
  EXPECT_THAT(values_of(diff(x, 0)), ElementsAre(1, 4, 9, 16, 2, 3, 5, 8));
  EXPECT_EQ(diff(x, 4).shape(), (Shape{2, 0}));
  EXPECT_EQ(diff(x, 9).shape(), (Shape{2, 0}));
  EXPECT_EQ(diff(zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_THAT(values_of(diff(Array({true, true, false}, {3}))), ElementsAre(0, 1));
  EXPECT_EQ(diff(Array({true, true}, {2})).dtype(), bool_);
  EXPECT_THAT(values_of(diff(Array({uint8_t{3}, uint8_t{2}}, {2}))), ElementsAre(255));
  EXPECT_THROW((void)diff(x, -1), UsageError);
  EXPECT_THROW((void)diff(Array(1)), UsageError);
}

}  // namespace
}  // namespace holdfast
