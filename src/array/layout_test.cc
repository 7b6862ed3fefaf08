#include "holdfast/array/layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kLowestIndex = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighestIndex = std::numeric_limits<int64_t>::max();
TEST(Dims, print_as_python_tuples) {
  EXPECT_EQ(to_string(Dims{}), "()");
  EXPECT_EQ(to_string(Dims{3}), "(3,)");
  EXPECT_EQ(to_string(Dims{32, -768}), "(32, -768)");
}

TEST(Dims, more_than_eight_are_refused) {
  Dims dims = Dims::filled(8, 1);
  EXPECT_THAT([&] { dims.push_back(1); },
              ThrowsMessage<UsageError>(HasSubstr("an array of 9 dimensions was asked for")));
  EXPECT_EQ(dims.size(), 8U);
  EXPECT_THROW(Dims::filled(300, 1), UsageError);
  EXPECT_THROW(Dims({1, 2, 3, 4, 5, 6, 7, 8, 9}), UsageError);
}

TEST(Elements, are_the_product_of_the_lengths) {
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(elements({3, 4}), 12);
  EXPECT_EQ(elements({3, 0, 4}), 0);
  EXPECT_EQ(elements({kMaxLength, 2}), 2 * kMaxLength);
  EXPECT_EQ(elements({kMaxLength, kMaxLength, kMaxLength, kMaxLength, 0}), 0);
}

TEST(Elements, of_absurd_shapes_are_refused) {
  EXPECT_THAT([] { elements({2, -1}); }, ThrowsMessage<UsageError>(HasSubstr("length -1")));
  EXPECT_THROW(elements({0, kMaxLength + 1}), UsageError);
  EXPECT_THAT(
      [] {
        elements({kMaxLength, kMaxLength});
      },
      ThrowsMessage<UsageError>(HasSubstr("more elements than any memory")));
  EXPECT_THROW(elements({kMaxLength, kMaxLength, kMaxLength, kMaxLength}), UsageError);
}

TEST(Layout, without_elements_the_largest_lengths_do_not_overflow) {
  const Shape shape{kMaxLength, kMaxLength, kMaxLength, kMaxLength, 0};
  const Layout layout = Layout::row_contiguous(shape);
  EXPECT_TRUE(layout.is_row_contiguous());
  EXPECT_FALSE(layout.has_negative_strides());
  EXPECT_EQ(slice(layout, std::vector<Slice>{{.start = 5, .step = kHighestIndex}}).shape[0], 1);
  EXPECT_EQ(reach(layout), (Reach{0, -1}));
  const Strides strides = Layout::row_contiguous({0, kMaxLength, kMaxLength, kMaxLength}).strides;
  EXPECT_EQ(strides[0], strides[1]) << "no further product";
}

TEST(Layout, a_reach_beyond_all_numbers_is_refused) {
  EXPECT_THROW(reach({{3}, {kHighestIndex / 2}, 2}), UsageError);
  EXPECT_THROW(reach({{kMaxLength}, {kLowestIndex}, 0}), UsageError);
  EXPECT_THROW(as_strided({4}, {kHighestIndex}, 0, 10), UsageError);
  EXPECT_EQ(reach({{1}, {kLowestIndex}, 7}), (Reach{7, 7}));
}

TEST(Layout, without_elements_no_stride_and_no_offset_lies_outside_the_memory) {
  EXPECT_EQ(as_strided({0, 3}, {kHighestIndex, kLowestIndex}, -5, 0),
            Layout::row_contiguous({0, 3}));
}

TEST(Layout, an_axis_of_length_one_has_no_negative_stride) {
  const Layout layout = Layout::row_contiguous({4});
  const Layout last = slice(layout, std::vector<Slice>{{.stop = -2, .step = -1}});
  EXPECT_EQ(last.shape, Shape{1});
  EXPECT_EQ(last.offset, 3);
  EXPECT_FALSE(last.has_negative_strides());
  EXPECT_FALSE(as_strided({1}, {kLowestIndex}, 2, 4).has_negative_strides());
  const Layout backwards = slice(layout, std::vector<Slice>{{.step = -1}});
  EXPECT_TRUE(backwards.has_negative_strides());
  EXPECT_FALSE(slice(backwards, std::vector<Slice>{{.stop = 1}}).has_negative_strides());
}

TEST(Layout, axes_count_from_both_ends_and_are_named_in_errors) {
  EXPECT_EQ(normal_axis(-1, 3, "sum"), 2U);
  EXPECT_EQ(normal_axis(2, 3, "sum"), 2U);
  EXPECT_THAT([] { normal_axis(3, 3, "sum"); },
              ThrowsMessage<UsageError>(
                  "sum: there is no axis 3 among 3 dimensions; axes go from -3 to 2"));
  EXPECT_THAT([] { normal_axis(0, 0, "sum"); },
              ThrowsMessage<UsageError>(HasSubstr("none can be named")));
  EXPECT_THROW(normal_axis(kLowestIndex, 8, "sum"), UsageError);
  EXPECT_EQ(normal_axes(std::vector<int64_t>{-1, 0}, 3, "sum"), (Dims{0, 2}));
  EXPECT_EQ(normal_axes({}, 3, "sum"), (Dims{0, 1, 2}));
  EXPECT_THAT(
      [] {
        normal_axes(std::vector<int64_t>{1, -2}, 3, "sum");
      },
      ThrowsMessage<UsageError>(HasSubstr("axis -2 is named twice")));
}

TEST(Layout, what_does_not_fit_is_refused_with_the_shapes) {
  const Layout layout = Layout::row_contiguous({2, 3});
  EXPECT_THAT([&] { slice(layout, std::vector<Slice>(3)); },
              ThrowsMessage<UsageError>(HasSubstr("3 slices given for an array of shape (2, 3)")));
  EXPECT_THAT([&] { slice(layout, std::vector<Slice>{{.step = 0}}); },
              ThrowsMessage<UsageError>(HasSubstr("the step of axis 0 is zero")));
  EXPECT_THAT([&] { transpose(layout, std::vector<int64_t>{0}); },
              ThrowsMessage<UsageError>(HasSubstr("the axes (0) do not fit")));
  EXPECT_THROW(transpose(layout, std::vector<int64_t>{0, 0}), UsageError);
  EXPECT_THAT(
      [&] {
        broadcast_to(layout, {3, 3});
      },
      ThrowsMessage<UsageError>(HasSubstr("shape (2, 3) does not stretch to (3, 3)")));
  EXPECT_THROW(broadcast_to(layout, {3}), UsageError);
  EXPECT_THROW(broadcast_to(layout, {-1, 2, 3}), UsageError);
  EXPECT_THAT([&] { squeeze(layout, std::vector<int64_t>{1}); },
              ThrowsMessage<UsageError>(HasSubstr("axis 1 of shape (2, 3) has the length 3")));
  EXPECT_THROW(expand_dims(layout, std::vector<int64_t>{3}), UsageError);
  EXPECT_THROW(expand_dims(layout, std::vector<int64_t>{0, 0}), UsageError);
  EXPECT_THROW(expand_dims(layout, std::vector<int64_t>(7, 0)), UsageError);
  EXPECT_THROW(as_strided({2, 3}, {1}, 0, 6), UsageError);
  EXPECT_THAT(
      [] {
        broadcast_shapes({2, 3}, {4});
      },
      ThrowsMessage<UsageError>(HasSubstr("shapes (2, 3) and (4,) do not fit each other")));
}

TEST(Layout, reshape_refuses_counts_that_differ_and_lengths_that_are_not_decided) {
  EXPECT_THAT(
      [] {
        resolve_reshape({2, 3}, {4});
      },
      ThrowsMessage<UsageError>(
          HasSubstr("shape (2, 3) has 6 elements, which do not fit shape (4,)")));
  EXPECT_THROW(resolve_reshape({2, 3}, {-1, 4}), UsageError);
  EXPECT_THROW(resolve_reshape({2, 3}, {-1, -1}), UsageError);
  EXPECT_THROW(resolve_reshape({2, 3}, {-2, 3}), UsageError);
  EXPECT_THROW(resolve_reshape({0, 3}, {-1, 0}), UsageError);
  EXPECT_THROW(resolve_reshape({kMaxLength, 2}, {-1}), UsageError);
  EXPECT_EQ(resolve_reshape({0, 3}, {-1, 3}), (Shape{0, 3}));
  EXPECT_EQ(resolve_reshape({}, {-1}), (Shape{1}));
  EXPECT_EQ(resolve_reshape({1, 1}, {}), Shape{});
}

TEST(Layout, collapse_joins_no_axis_that_would_be_longer_than_an_axis_can_be) {
  Layout layout = Layout::row_contiguous({4, 1 << 16, 1 << 15});
  collapse({&layout, 1});
  EXPECT_EQ(elements(layout.shape), int64_t{1} << 33);
  EXPECT_TRUE(layout.is_row_contiguous());
}

TEST(Layout, collapse_leaves_one_axis_of_a_scalar) {
  Layout layout{.offset = 3};
  collapse({&layout, 1});
  EXPECT_EQ(layout, (Layout{{1}, {1}, 3}));
}

}  // namespace
}  // namespace holdfast::array
