#include "holdfast/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "holdfast/base/error.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// 0, 1, 2, ... in that shape.
Array counting_array(const Shape& shape) {
  std::vector<int32_t> values(static_cast<size_t>(elements(shape)));
  std::iota(values.begin(), values.end(), 0);
  return {values, shape};
}

std::vector<int32_t> values(const Array& array) { return array.to_vector<int32_t>(); }

bool shares_memory(const Array& a, const Array& b) { return a.value() == b.value(); }

TEST(Views, slice_as_python_does) {
  const Array x = counting_array({3, 4});
  EXPECT_THAT(values(slice(x, {{.start = 1}})), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(values(slice(x, {{}, {.start = -3, .stop = -1}})), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(values(slice(x, {{.step = -2}, {.step = 3}})), ElementsAre(8, 11, 0, 3));
  EXPECT_THAT(values(slice(x, {{.start = 2, .stop = 1}})), IsEmpty());
  EXPECT_EQ(slice(x, {{.start = 2, .stop = 1}}).shape(), (Shape{0, 4}));
  const std::vector<Slice> slices{{.stop = 1}};
  EXPECT_THAT(values(slice(x, slices)), ElementsAre(0, 1, 2, 3));
}

TEST(Views, of_views_add_up) {
  const Array x = slice(counting_array({3, 4}), {{.step = -1}, {.start = 1}});
  EXPECT_THAT(values(slice(transpose(x), {{.step = 2}, {.start = 1}})), ElementsAre(5, 1, 7, 3));
}

TEST(Views, compute_nothing_and_share_the_memory) {
  const Array x = counting_array({2, 1, 3});
  for (const Array& view : {slice(x, {{.start = 1}}), index(x, 0), transpose(x), swap_axes(x, 0, 2),
                            broadcast_to(x, {2, 4, 3}), squeeze(x), expand_dims(x, {0}),
                            as_strided(x, {2}, {1}), reshape(x, {3, 2}), flatten(x)}) {
    EXPECT_TRUE(shares_memory(view, x)) << to_string(view.shape());
  }
}

TEST(Views, of_everything_are_the_array_itself) {
  const Array x = counting_array({2, 3});
  EXPECT_EQ(slice(x, {}).view(), nullptr);
  EXPECT_EQ(transpose(transpose(x)).view(), nullptr);
}

TEST(Views, index_takes_an_axis_away) {
  const Array x = counting_array({3, 4});
  EXPECT_THAT(values(index(x, 1)), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(values(index(x, -1, 1)), ElementsAre(3, 7, 11));
  EXPECT_THAT(values(index(x, 0, -1)), ElementsAre(0, 4, 8));
  EXPECT_EQ(index(index(x, 2), 3).shape(), Shape{});
  EXPECT_EQ(index(index(x, 2), 3).item<int32_t>(), 11);
  EXPECT_EQ(index(counting_array({2, 0}), 1).shape(), Shape{0});
}

TEST(Views, index_refuses_positions_that_are_not_there) {
  const Array x = counting_array({3, 4});
  EXPECT_THAT([&] { index(x, 3); },
              ThrowsMessage<UsageError>(HasSubstr("no position 3 on axis 0 of shape (3, 4); "
                                                  "positions go from -3 to 2")));
  EXPECT_THROW(index(x, -5, 1), UsageError);
  EXPECT_THROW(index(x, 0, 2), UsageError);
  EXPECT_THROW(index(Array(1), 0), UsageError);
  EXPECT_THAT([&] { index(counting_array({0}), 0); },
              ThrowsMessage<UsageError>(HasSubstr("it has no elements")));
}

TEST(Views, transpose_in_any_order) {
  const Array x = counting_array({2, 3, 2});
  EXPECT_EQ(transpose(x).shape(), (Shape{2, 3, 2}));
  EXPECT_THAT(values(transpose(x)), ElementsAre(0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11));
  EXPECT_THAT(values(transpose(x, {1, 0, -1})), ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  const std::vector<int64_t> axes{1, 0, 2};
  EXPECT_EQ(values(transpose(x, axes)), values(swap_axes(x, 0, -2)));
  EXPECT_EQ(transpose(Array(5)).item<int32_t>(), 5);
}

TEST(Views, broadcast_repeats_without_memory) {
  const Array x = counting_array({2, 1});
  EXPECT_THAT(values(broadcast_to(x, {2, 2, 3})), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values(broadcast_to(Array(7), {2})), ElementsAre(7, 7));
  EXPECT_THAT(values(broadcast_to(x, {2, 0})), IsEmpty());
}

TEST(Views, squeeze_and_expand_dims_move_axes_of_length_one) {
  const Array x = counting_array({1, 2, 1});
  EXPECT_EQ(squeeze(x).shape(), (Shape{2}));
  EXPECT_EQ(squeeze(x, {-1}).shape(), (Shape{1, 2}));
  EXPECT_EQ(expand_dims(counting_array({2, 3}), {0, -1}).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_THAT(values(expand_dims(transpose(counting_array({2, 2})), {1})), ElementsAre(0, 2, 1, 3));
}

TEST(Views, as_strided_sees_the_whole_result_also_through_a_view) {
  const Array x = counting_array({8});
  EXPECT_THAT(values(as_strided(x, {3, 2}, {1, 2})), ElementsAre(0, 2, 1, 3, 2, 4));
  EXPECT_THAT(values(as_strided(x, {3}, {-2}, 5)), ElementsAre(5, 3, 1));
  EXPECT_THAT(values(as_strided(slice(x, {{.start = 6}}), {2}, {1})), ElementsAre(0, 1));
  EXPECT_THROW(as_strided(x, {9}, {1}), UsageError);
  EXPECT_THROW(as_strided(x, {2}, {-1}), UsageError);
}

TEST(Views, reshape_is_a_view_where_it_can_be_and_a_copy_elsewhere) {
  const Array x = counting_array({2, 3, 4});
  const Array rows = slice(x, {{}, {.stop = 2}});
  EXPECT_TRUE(shares_memory(reshape(rows, {2, -1}), x));
  EXPECT_THAT(values(reshape(rows, {2, 8})),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_FALSE(shares_memory(reshape(rows, {4, 4}), x));
  const Array flat = flatten(rows);
  EXPECT_FALSE(shares_memory(flat, x));
  EXPECT_TRUE(flat.is_row_contiguous());
  EXPECT_THAT(values(flat), ElementsAreArray(values(rows)));
  EXPECT_THAT(values(flatten(slice(counting_array({4}), {{.step = -1}}))), ElementsAre(3, 2, 1, 0));
}

TEST(Views, reshape_of_arrays_without_elements_and_of_scalars) {
  EXPECT_EQ(reshape(counting_array({0, 3}), {5, 0}).shape(), (Shape{5, 0}));
  EXPECT_EQ(reshape(Array(3), {1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(reshape(counting_array({1}), {}).item<int32_t>(), 0);
  EXPECT_THROW(reshape(counting_array({2, 3}), {7}), UsageError);
}

TEST(Views, keep_the_memory_when_the_array_is_dropped) {
  Array x = counting_array({2, 3});
  const Array column = index(x, 1, 1);
  x = Array();
  EXPECT_THAT(values(column), ElementsAre(1, 4));
}

TEST(Views, of_no_array_are_refused) {
  const Array none;
  EXPECT_THROW(slice(none, {}), UsageError);
  EXPECT_THROW(index(none, 0), UsageError);
  EXPECT_THROW(transpose(none), UsageError);
  EXPECT_THROW(swap_axes(none, 0, 0), UsageError);
  EXPECT_THROW(broadcast_to(none, {1}), UsageError);
  EXPECT_THROW(squeeze(none), UsageError);
  EXPECT_THROW(expand_dims(none, {0}), UsageError);
  EXPECT_THROW(as_strided(none, {1}, {1}), UsageError);
  EXPECT_THROW(reshape(none, {1}), UsageError);
  EXPECT_THROW(flatten(none), UsageError);
}

TEST(Views, moveaxis_keeps_the_order_of_the_others) {
  const Array x = counting_array({2, 3, 4});
  EXPECT_EQ(moveaxis(x, 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(moveaxis(x, 2, 0).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(values(moveaxis(x, 0, 2)), values(transpose(x, {1, 2, 0})));
  const std::vector<int64_t> from{0, 1};
  const std::vector<int64_t> to{-1, -2};
  EXPECT_EQ(moveaxis(x, from, to).shape(), (Shape{4, 3, 2}));
  EXPECT_TRUE(shares_memory(moveaxis(x, 0, 1), x));
  const std::vector<int64_t> none;
  EXPECT_EQ(moveaxis(Array(3), none, none).item<int32_t>(), 3);
  EXPECT_EQ(moveaxis(x, none, none).shape(), (Shape{2, 3, 4}));
  EXPECT_THROW((void)moveaxis(x, 3, 0), UsageError);
  EXPECT_THAT([&] { (void)moveaxis(x, from, none); },
              ThrowsMessage<UsageError>(HasSubstr("2 axes cannot go to 0 places")));
  const std::vector<int64_t> twice{1, 1};
  EXPECT_THAT([&] { (void)moveaxis(x, twice, to); },
              ThrowsMessage<UsageError>(HasSubstr("axis 1 is named twice among the sources")));
  EXPECT_THAT([&] { (void)moveaxis(x, from, twice); },
              ThrowsMessage<UsageError>(HasSubstr("named twice among the destinations")));
}

TEST(Views, flip_turns_axes_around) {
  const Array x = counting_array({2, 3});
  EXPECT_THAT(values(flip(x)), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(values(flip(x, {0})), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(values(flip(x, {-1})), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_TRUE(shares_memory(flip(x), x));
  EXPECT_EQ(flip(Array(3)).item<int32_t>(), 3);
  EXPECT_THAT(values(flip(counting_array({0, 2}))), IsEmpty());
  EXPECT_THROW((void)flip(x, {2}), UsageError);
  EXPECT_THROW((void)flip(x, {0, -2}), UsageError);
}

TEST(Views, split_gives_equal_parts_or_those_between_positions) {
  const Array x = counting_array({2, 6});
  const std::vector<Array> thirds = split(x, 3, 1);
  ASSERT_EQ(thirds.size(), 3U);
  EXPECT_THAT(values(thirds[1]), ElementsAre(2, 3, 8, 9));
  EXPECT_TRUE(shares_memory(thirds[2], x));
  const std::vector<Array> parts = split(x, {1, -2}, -1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(values(parts[0]), ElementsAre(0, 6));
  EXPECT_THAT(values(parts[1]), ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_THAT(values(parts[2]), ElementsAre(4, 5, 10, 11));
  EXPECT_THAT(values(split(x, {9}, 1)[1]), IsEmpty());
  EXPECT_THAT(values(split(x, {4, 2}, 1)[1]), IsEmpty()) << "as slices that end before they begin";
  EXPECT_EQ(split(counting_array({0}), 2).size(), 2U);
  EXPECT_THAT([&] { (void)split(x, 4, 1); },
              ThrowsMessage<UsageError>(HasSubstr("axis 1 of shape (2, 6) has no 4 equal parts")));
  EXPECT_THROW((void)split(x, 0), UsageError);
  EXPECT_THROW((void)split(x, 2, 2), UsageError);
  EXPECT_THROW((void)split(Array(1), 1), UsageError);
}

TEST(Views, meshgrid_stretches_each_array_along_the_others) {
  const Array x = counting_array({3});
  const Array y = slice(counting_array({4}), {{.step = -2}});
  const std::vector<Array> xy = meshgrid({x, y});
  EXPECT_EQ(xy[0].shape(), (Shape{2, 3}));
  EXPECT_THAT(values(xy[0]), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(values(xy[1]), ElementsAre(3, 3, 3, 1, 1, 1));
  EXPECT_TRUE(shares_memory(xy[0], x));
  const std::vector<Array> ij = meshgrid({x, y}, Indexing::ij);
  EXPECT_THAT(values(ij[0]), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(values(ij[1]), ElementsAre(3, 1, 3, 1, 3, 1));
  const std::vector<Array> sparse = meshgrid({x, y, x}, Indexing::xy, true);
  EXPECT_EQ(sparse[0].shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sparse[1].shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(sparse[2].shape(), (Shape{1, 1, 3}));
  EXPECT_EQ(meshgrid({Array(3), x})[0].shape(), (Shape{3, 1}));
  EXPECT_EQ(meshgrid({x, counting_array({0})})[0].shape(), (Shape{0, 3}));
  EXPECT_TRUE(meshgrid(std::span<const Array>()).empty());
  EXPECT_EQ(meshgrid({x})[0].shape(), Shape{3});
  EXPECT_THAT(
      [] {
        (void)meshgrid({counting_array({2, 2})});
      },
      ThrowsMessage<UsageError>(HasSubstr("array 0 has the shape (2, 2)")));
}

}  // namespace
}  // namespace holdfast
