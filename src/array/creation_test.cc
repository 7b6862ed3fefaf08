#include "holdfast/creation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "holdfast/hal/devices.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Creation, full_has_the_value_everywhere_in_every_dtype) {
  EXPECT_THAT(full({2, 3}, 2.5).to_vector<float>(), Each(2.5F));
  EXPECT_EQ(full({2, 3}, 2.5).shape(), (Shape{2, 3}));
  EXPECT_THAT(full({3}, -7, int16).to_vector<int16_t>(), Each(-7));
  EXPECT_THAT(full({3}, 7, uint64).to_vector<uint64_t>(), Each(7U));
  EXPECT_THAT(full({3}, 0.1, float64).to_vector<double>(), Each(0.1));
  EXPECT_EQ(full({}, 3).item<float>(), 3);
  EXPECT_EQ(full({1}, -1, int64).item<int64_t>(), -1) << "the same byte everywhere";
  EXPECT_EQ(full({1}, 2, bool_).item<bool>(), true);
  EXPECT_THAT(full({2, 0}, 5).to_vector<float>(), IsEmpty());
  EXPECT_THROW((void)zeros({-1}), UsageError);
}

TEST(Creation, zeros_and_ones_are_like_what_they_are_given) {
  const Array x = full({2, 2}, 3, int8);
  EXPECT_THAT(zeros_like(x).to_vector<int8_t>(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ones_like(transpose(x)).to_vector<int8_t>(), ElementsAre(1, 1, 1, 1));
  const Device device(hal::open_device("cpu").or_raise());
  const Stream stream = device.new_stream("s");
  EXPECT_EQ(zeros_like(full({1}, 1, float32, stream)).stream(), stream);
  EXPECT_EQ(ones_like(x, stream).stream(), stream);
}

TEST(Creation, arange_counts_up_and_down_to_where_it_stops) {
  EXPECT_THAT(arange(4).to_vector<int32_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(arange(2, 8, 3, int32).to_vector<int32_t>(), ElementsAre(2, 5));
  EXPECT_THAT(arange(2, 9, 3, int32).to_vector<int32_t>(), ElementsAre(2, 5, 8));
  EXPECT_THAT(arange(3, -1, -2, int8).to_vector<int8_t>(), ElementsAre(3, 1));
  EXPECT_THAT(arange(0, 1, 0.25).to_vector<float>(), ElementsAre(0, 0.25F, 0.5F, 0.75F));
  EXPECT_THAT(arange(0, 0.3, 0.1, float64).to_vector<double>(), ElementsAre(0, 0.1, 0.2));
  EXPECT_THAT(arange(5, 5).to_vector<float>(), IsEmpty());
  EXPECT_THAT(arange(5, 0).to_vector<float>(), IsEmpty());
  EXPECT_THAT(arange(0, 5, -1, uint8).to_vector<uint8_t>(), IsEmpty());
  EXPECT_THAT(arange(254, 256, 1, uint8).to_vector<uint8_t>(), ElementsAre(254, 255));
  EXPECT_THAT(arange(2, -1, -1, uint8).to_vector<uint8_t>(), ElementsAre(2, 1, 0));
}

TEST(Creation, arange_refuses_what_is_no_range) {
  EXPECT_THAT([] { (void)arange(0, 5, 0); }, ThrowsMessage<UsageError>(HasSubstr("step of zero")));
  EXPECT_THROW((void)arange(0, INFINITY), UsageError);
  EXPECT_THROW((void)arange(-INFINITY, 0), UsageError);
  EXPECT_THROW((void)arange(0, NAN), UsageError);
  EXPECT_THROW((void)arange(0, 1, NAN), UsageError);
  EXPECT_THROW((void)arange(0, 1e10), UsageError);
  EXPECT_THROW((void)arange(0.5, 3, 1, int32), UsageError) << "a fraction among integers";
  EXPECT_THROW((void)arange(0, 3, 0.5, int32), UsageError);
  EXPECT_THROW((void)arange(0, 257, 1, uint8), UsageError) << "256 is none of them";
  EXPECT_THROW((void)arange(-1, 3, 1, uint8), UsageError);
}

TEST(Creation, eye_has_ones_on_the_diagonal) {
  EXPECT_THAT(eye(3, int32).to_vector<int32_t>(), ElementsAre(1, 0, 0, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(eye(1).to_vector<float>(), ElementsAre(1));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
  EXPECT_THAT(eye(0).to_vector<float>(), IsEmpty());
  EXPECT_THROW((void)eye(-1), UsageError);
  EXPECT_THROW((void)eye(int64_t{1} << 40), UsageError);
}

TEST(Creation, linspace_has_both_ends_and_equal_steps) {
  EXPECT_THAT(linspace(0, 1, 5).to_vector<float>(), ElementsAre(0, 0.25F, 0.5F, 0.75F, 1));
  EXPECT_THAT(linspace(0, 1, 4, float32, false).to_vector<float>(),
              ElementsAre(0, 0.25F, 0.5F, 0.75F));
  EXPECT_THAT(linspace(3, -3, 3, int8).to_vector<int8_t>(), ElementsAre(3, 0, -3));
  EXPECT_THAT(linspace(-1, 1, 5, int32).to_vector<int32_t>(), ElementsAre(-1, -1, 0, 0, 1));
  EXPECT_EQ(linspace(0, 1).size(), 50);
  EXPECT_THAT(linspace(2, 9, 1).to_vector<float>(), ElementsAre(2));
  EXPECT_THAT(linspace(2, 9, 0).to_vector<float>(), IsEmpty());
  // The product alone would round to another number.
  for (const int64_t count : {7, 50, 1000}) {
    const std::vector<double> values = linspace(0.1, 0.7, count, float64).to_vector<double>();
    EXPECT_EQ(values.front(), 0.1);
    EXPECT_EQ(values.back(), 0.7);
  }
  EXPECT_THAT([] { (void)linspace(0, 1, -1); },
              ThrowsMessage<UsageError>(HasSubstr("a negative count")));
  EXPECT_THROW((void)linspace(0, INFINITY), UsageError);
  EXPECT_THROW((void)linspace(0, 256, 3, uint8), UsageError);
  EXPECT_THROW((void)linspace(0, 1, int64_t{1} << 40), UsageError);
}

TEST(Creation, tril_and_triu_keep_a_triangle) {
  const Array x = reshape(arange(1, 10, 1, int32), {3, 3});
  EXPECT_THAT(tril(x).to_vector<int32_t>(), ElementsAre(1, 0, 0, 4, 5, 0, 7, 8, 9));
  EXPECT_THAT(triu(x).to_vector<int32_t>(), ElementsAre(1, 2, 3, 0, 5, 6, 0, 0, 9));
  EXPECT_THAT(tril(x, 1).to_vector<int32_t>(), ElementsAre(1, 2, 0, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(triu(x, -1).to_vector<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6, 0, 8, 9));
  EXPECT_THAT(tril(transpose(x), -1).to_vector<int32_t>(), ElementsAre(0, 0, 0, 2, 0, 0, 3, 6, 0));
  EXPECT_THAT(triu(x, INT64_MAX).to_vector<int32_t>(), Each(0));
  EXPECT_EQ(tril(x, INT64_MAX).to_vector<int32_t>(), x.to_vector<int32_t>());
  EXPECT_THAT(
      tril(ones({2, 2, 3}, bool_)).to_vector<bool>(),
      ElementsAre(true, false, false, true, true, false, true, false, false, true, true, false));
  EXPECT_EQ(triu(ones({2, 0}, float16)).shape(), (Shape{2, 0}));
  EXPECT_EQ(triu(ones({2, 2}, float16)).dtype(), float16);
  EXPECT_THAT([] { (void)tril(ones({3})); },
              ThrowsMessage<UsageError>(HasSubstr("tril: an array of shape (3,) has no matrices")));
}

}  // namespace
}  // namespace holdfast
