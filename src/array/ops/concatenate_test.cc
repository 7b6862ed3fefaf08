#include <gtest/gtest.h>

#include <numeric>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::Lie;
using numeric::values_of;

// The row-major number of each element, from a start.
Array counted(const Shape& shape, Dtype dtype, Lie lie, double start) {
  std::vector<double> values(static_cast<size_t>(elements(shape)));
  std::iota(values.begin(), values.end(), start);
  if (dtype == bool_) {
    for (double& v : values) v = static_cast<int>(v) % 3 == 0 ? 1 : 0;
  }
  return numeric::laid_out(array_of(values, shape, dtype), lie);
}

void check(const Shape& shape, size_t axis, const std::vector<int64_t>& lengths, Dtype dtype,
           Lie lie) {
  std::vector<Array> parts;
  Shape whole = shape;
  whole[axis] = 0;
  for (const int64_t length : lengths) {
    Shape part = shape;
    part[axis] = length;
    parts.push_back(counted(part, dtype, lie, static_cast<double>(parts.size()) * 20));
    whole[axis] += length;
  }
  // Row by row of the axes before it.
  std::vector<double> wanted;
  int64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (int64_t i = 0; i < outer; ++i) {
    for (const Array& part : parts) {
      const std::vector<double> values = values_of(part);
      const auto row = static_cast<std::ptrdiff_t>(values.size()) / outer;
      wanted.insert(wanted.end(), values.begin() + i * row, values.begin() + (i + 1) * row);
    }
  }
  const Array got = concatenate(parts, static_cast<int64_t>(axis));
  EXPECT_EQ(got.shape(), whole);
  EXPECT_EQ(got.dtype(), dtype);
  EXPECT_EQ(values_of(got), wanted)
      << to_string(dtype) << to_string(shape) << axis << numeric::to_string(lie);
}

TEST(Concatenate, puts_arrays_side_by_side) {
  for (const Dtype dtype : {float32, float16, bfloat16, int32}) {
    check({3}, 0, {3, 1, 4}, dtype, Lie::contiguous);
    check({2, 3}, 0, {2, 3}, dtype, Lie::reversed);
    check({2, 3}, 1, {1, 0, 3}, dtype, Lie::transposed);
  }
}

TEST(Concatenate, nightly_all_dtypes_axes_and_layouts) {
  for (unsigned d = 0; d < kernel::kDtypes; ++d) {
    for (const Lie lie : numeric::kLies) {
      check({4}, 0, {4, 3}, static_cast<Dtype>(d), lie);
      for (const size_t axis : {0U, 1U, 2U}) {
        check({2, 3, 4}, axis, {2, 1, 3}, static_cast<Dtype>(d), lie);
        check({1, 2, 1}, axis, {1, 0, 1}, static_cast<Dtype>(d), lie);
      }
    }
  }
}

TEST(Concatenate, takes_parts_of_one_array_and_broadcast_ones) {
  const Array a = arange(6, int32);
  const Array turned = concatenate({slice(a, {{.start = 4}}), slice(a, {{.stop = 4}})});
  EXPECT_EQ(turned.to_vector<int32_t>(), (std::vector<int32_t>{4, 5, 0, 1, 2, 3}));
  const Array twice = concatenate({a, a, slice(a, {{.step = -1}})});
  EXPECT_EQ(twice.size(), 18);
  EXPECT_EQ(twice.to_vector<int32_t>()[12], 5);
  const Array wide = broadcast_to(Array({7, 8}, {2, 1}), {2, 3});
  EXPECT_EQ(concatenate({wide, wide}, -1).to_vector<int32_t>(),
            (std::vector<int32_t>{7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8}));
}

TEST(Concatenate, dtypes_are_promoted) {
  const Array both = concatenate({Array({1, 2}, {2}), Array({0.5F}, {1})});
  EXPECT_EQ(both.dtype(), float32);
  EXPECT_EQ(values_of(both), (std::vector<double>{1, 2, 0.5}));
}

TEST(Concatenate, what_does_not_fit_is_refused) {
  EXPECT_THROW((void)concatenate(std::span<const Array>{}), UsageError);
  EXPECT_THROW((void)concatenate({zeros({2, 3}), zeros({2, 4})}), UsageError);
  EXPECT_THROW((void)concatenate({zeros({2, 3}), zeros({2})}), UsageError);
  EXPECT_THROW((void)concatenate({zeros({2})}, 1), UsageError);
  EXPECT_THROW((void)concatenate({Array(1.0F), Array(2.0F)}), UsageError);
}

TEST(Stack, makes_an_axis_anywhere) {
  const Array a({1, 2, 3}, {3});
  const Array b({4, 5, 6}, {3});
  const std::vector<Array> both{a, b};
  EXPECT_EQ(stack(both).shape(), (Shape{2, 3}));
  EXPECT_EQ(stack(both).to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(stack(both, -1).shape(), (Shape{3, 2}));
  EXPECT_EQ(stack(both, 1).to_vector<int32_t>(), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  const std::vector<Array> scalars{Array(1.0F), Array(2.0F)};
  EXPECT_EQ(values_of(stack(scalars)), (std::vector<double>{1, 2}));
}

TEST(Stack, what_does_not_fit_is_refused) {
  const std::vector<Array> two{zeros({2}), zeros({1})};
  EXPECT_THROW((void)stack(two), UsageError);
  EXPECT_THROW((void)stack(std::span<const Array>{}), UsageError);
  EXPECT_THROW((void)stack(std::span(two).first(1), 2), UsageError);
}

}  // namespace
}  // namespace holdfast
