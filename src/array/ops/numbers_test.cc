#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "holdfast/array/scalars.h"
#include "holdfast/base/error.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"

// C++ numbers beside arrays, at the ends of what 64 bits hold.
namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kHalf = uint64_t{1} << 63;
constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();

std::vector<int> bits_of(const Array& a) {
  std::vector<int> bits;
  for (const bool b : a.to_vector<bool>()) bits.push_back(b ? 1 : 0);
  return bits;
}

TEST(Numbers, beyond_int64_keep_their_value_beside_floats) {
  EXPECT_EQ((zeros({1}) + kHuge).to_vector<float>()[0], 0x1p64F);
  EXPECT_EQ((zeros({1}, float64) + kHalf).to_vector<double>()[0], 0x1p63);
  EXPECT_EQ((kHalf - zeros({1})).to_vector<float>()[0], 0x1p63F);
  EXPECT_EQ(where(zeros({1}, bool_), 0.5F, kHuge).item<float>(), 0x1p64F);
  EXPECT_EQ(maximum(zeros({1}), kHuge).item<float>(), 0x1p64F);
  EXPECT_EQ(clip(full({1}, 1e20), 0, kHuge).item<float>(), 0x1p64F);
  EXPECT_EQ((zeros({1}) + kLow).item<float>(), -0x1p63F);
  EXPECT_EQ(Term(kHuge).number(), 0x1p64);
}

TEST(Numbers, beyond_int64_are_elements_of_uint64) {
  EXPECT_EQ((zeros({1}, uint64) + kHuge).item<uint64_t>(), kHuge);
  EXPECT_EQ((Array(uint64_t{1}) + kHuge).item<uint64_t>(), 0U) << "arithmetic wraps around";
  EXPECT_EQ(maximum(Array(uint64_t{5}), kHalf).item<uint64_t>(), kHalf);
}

TEST(Numbers, beside_bool_get_an_integer_that_holds_them) {
  const Array one(true);
  EXPECT_EQ((one + 1).dtype(), int32);
  EXPECT_EQ((one + std::numeric_limits<int32_t>::max()).dtype(), int32);
  EXPECT_EQ((one + std::numeric_limits<int32_t>::min()).dtype(), int32);
  EXPECT_EQ((one + (int64_t{1} << 31)).item<int64_t>(), (int64_t{1} << 31) + 1);
  EXPECT_EQ((one * kLow).item<int64_t>(), kLow);
  EXPECT_EQ((one * kHuge).item<uint64_t>(), kHuge);
  EXPECT_EQ((one + true).dtype(), bool_);
}

TEST(Numbers, are_compared_as_they_are_with_every_integer) {
  const Array s({kLow, int64_t{-1}, int64_t{0}, kHigh}, {4});
  for (const uint64_t beyond : {kHalf, kHuge}) {
    EXPECT_THAT(bits_of(s < beyond), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(bits_of(s <= beyond), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(bits_of(s > beyond), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(bits_of(s >= beyond), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(bits_of(s == beyond), ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(bits_of(s != beyond), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(bits_of(beyond > s), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(bits_of(beyond < s), ElementsAre(0, 0, 0, 0));
  }
  const Array u({uint64_t{0}, uint64_t{1}, kHalf - 1, kHalf, kHuge}, {5});
  EXPECT_THAT(bits_of(u < kHalf), ElementsAre(1, 1, 1, 0, 0));
  EXPECT_THAT(bits_of(u == kHalf), ElementsAre(0, 0, 0, 1, 0));
  EXPECT_THAT(bits_of(u == kHuge), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(bits_of(u > kHigh), ElementsAre(0, 0, 0, 1, 1));
  for (const int64_t below : {int64_t{-1}, kLow}) {
    EXPECT_THAT(bits_of(u < below), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(bits_of(u == below), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(bits_of(u != below), ElementsAre(1, 1, 1, 1, 1));
    EXPECT_THAT(bits_of(u > below), ElementsAre(1, 1, 1, 1, 1));
    EXPECT_THAT(bits_of(below <= u), ElementsAre(1, 1, 1, 1, 1));
  }
  const Array narrow({int8_t{-128}, int8_t{0}, int8_t{127}}, {3});
  EXPECT_THAT(bits_of(narrow < kHuge), ElementsAre(1, 1, 1));
  EXPECT_THAT(bits_of(narrow == 128), ElementsAre(0, 0, 0));
  EXPECT_THAT(bits_of(narrow > -129), ElementsAre(1, 1, 1));
  EXPECT_THAT(bits_of(Array({uint32_t{0}, ~uint32_t{0}}, {2}) < kHalf), ElementsAre(1, 1));
  EXPECT_THAT(bits_of(Array({uint32_t{0}, ~uint32_t{0}}, {2}) > int64_t{-1}), ElementsAre(1, 1));
  EXPECT_THAT(bits_of(Array({true, false}, {2}) < kHuge), ElementsAre(1, 1));
  EXPECT_THAT(bits_of(Array({true, false}, {2}) > kLow), ElementsAre(1, 1));
  EXPECT_THAT(bits_of(logical_and(s, kHuge)), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(bits_of(logical_or(u, int64_t{-1})), ElementsAre(1, 1, 1, 1, 1));
}

TEST(Numbers, beyond_their_dtype_are_refused_where_an_array_is_filled) {
  EXPECT_THAT([] { (void)full({1}, 0x1p63, int64); },
              ThrowsMessage<UsageError>(HasSubstr("does not exist in int64")));
  EXPECT_THROW((void)full({1}, 0x1p64, uint64), UsageError);
  EXPECT_THROW((void)full({1}, -1, uint8), UsageError);
  EXPECT_THROW((void)full({1}, 256, uint8), UsageError);
  EXPECT_THROW((void)full({1}, 128, int8), UsageError);
  EXPECT_THROW((void)full({1}, -129, int8), UsageError);
  EXPECT_THROW((void)full({1}, 0.5, int32), UsageError);
  EXPECT_THROW((void)full({1}, std::numeric_limits<double>::quiet_NaN(), int32), UsageError);
  EXPECT_THROW((void)full({1}, std::numeric_limits<double>::infinity(), int64), UsageError);
  EXPECT_EQ(full({1}, 255, uint8).item<uint8_t>(), 255);
  EXPECT_EQ(full({1}, -128, int8).item<int8_t>(), -128);
  EXPECT_EQ(full({1}, 0x1p63, uint64).item<uint64_t>(), kHalf);
  EXPECT_EQ(full({1}, -0x1p63, int64).item<int64_t>(), kLow);
}

TEST(Numbers, as_scalars_of_another_dtype_keep_their_value) {
  using array::converted;
  using kernel::Scalar;
  EXPECT_EQ(converted(Scalar(kHuge), bool_).bits, 1U);
  EXPECT_EQ(converted(Scalar(uint64_t{0}), bool_).bits, 0U);
  EXPECT_EQ(converted(Scalar(kHalf), uint64).bits, kHalf);
  EXPECT_THROW((void)converted(Scalar(kHalf), int64), UsageError);
  EXPECT_EQ(converted(Scalar(kHalf - 1), int64).bits, kHalf - 1);
  EXPECT_EQ(converted(Scalar(kHalf), float32).bits, Scalar(0x1p63F).bits);
  EXPECT_EQ(converted(Scalar(int32_t{-1}), int64).bits, kHuge);
  EXPECT_EQ(converted(Scalar(int32_t{-1}), int8).bits, 0xffU);
  EXPECT_THROW((void)converted(Scalar(int32_t{-1}), uint64), UsageError);
}

}  // namespace
}  // namespace holdfast
