#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/base/error.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// All pairs of some numbers, in the dtype's own arithmetic.
template <typename T>
void check_bits() {
  const T most = std::numeric_limits<T>::max();
  const T least = std::numeric_limits<T>::min();
  const std::vector<T> numbers{0, 1, 5, 100, most, least, static_cast<T>(most / 3)};
  const auto n = static_cast<int64_t>(numbers.size());
  const Array a(numbers, {n, 1});
  const Array b(numbers, {n});
  std::vector<T> both;
  std::vector<T> either;
  std::vector<T> one;
  for (const T x : numbers) {
    for (const T y : numbers) {
      both.push_back(static_cast<T>(x & y));
      either.push_back(static_cast<T>(x | y));
      one.push_back(static_cast<T>(x ^ y));
    }
  }
  EXPECT_EQ((a & b).template to_vector<T>(), both);
  EXPECT_EQ((a | b).template to_vector<T>(), either);
  EXPECT_EQ((a ^ b).template to_vector<T>(), one);
  std::vector<T> inverted;
  for (const T x : numbers) inverted.push_back(static_cast<T>(~x));
  EXPECT_EQ((~b).template to_vector<T>(), inverted);

  constexpr int kBits = static_cast<int>(sizeof(T) * 8);
  const std::vector<T> places{0, 1, 3, kBits - 1, kBits, static_cast<T>(-1)};
  std::vector<T> left;
  std::vector<T> right;
  for (const T x : numbers) {
    for (const T p : places) {
      const bool inside = p >= T(0) && p < T(kBits);
      const uint64_t wide = static_cast<std::make_unsigned_t<T>>(x);
      left.push_back(inside ? static_cast<T>(wide << static_cast<unsigned>(p)) : T(0));
      right.push_back(inside ? static_cast<T>(x >> p) : static_cast<T>(x < T(0) ? -1 : 0));
    }
  }
  const Array by(places, {static_cast<int64_t>(places.size())});
  EXPECT_EQ(left_shift(a, by).template to_vector<T>(), left);
  EXPECT_EQ(right_shift(a, by).template to_vector<T>(), right);
}

TEST(Bitwise, integers_are_joined_inverted_and_shifted_bit_by_bit) { check_bits<int32_t>(); }

TEST(Bitwise, nightly_integers_of_all_dtypes) {
  check_bits<int8_t>();
  check_bits<uint8_t>();
  check_bits<int64_t>();
  check_bits<int16_t>();
  check_bits<uint16_t>();
  check_bits<uint32_t>();
  check_bits<uint64_t>();
}

TEST(Bitwise, of_bool_they_are_the_logical_operations) {
  const Array a({false, true}, {2, 1});
  const Array b({false, true}, {2});
  EXPECT_EQ((a & b).dtype(), bool_);
  EXPECT_THAT(values_of(a & b), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(values_of(a | b), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(values_of(a ^ b), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(values_of(~b), ElementsAre(1, 0));
}

TEST(Bitwise, numbers_adapt_and_dtypes_promote) {
  const Array x({uint8_t{6}, uint8_t{255}}, {2});
  EXPECT_EQ((x & 3).dtype(), uint8);
  EXPECT_THAT(values_of(x & 3), ElementsAre(2, 3));
  EXPECT_EQ((x | Array({int8_t{-1}}, {1})).dtype(), int16);
  EXPECT_THAT(values_of(left_shift(x, 1)), ElementsAre(12, 254));
  EXPECT_THAT(values_of(right_shift(x, 7)), ElementsAre(0, 1));
  EXPECT_TRUE(values_of(slice(x, {{.stop = 0}}) ^ 1).empty());
}

TEST(Bitwise, floats_and_shifts_of_bool_are_refused_with_the_way_out) {
  const Array f = array_of({1}, {1}, float32);
  const Array i = array_of({1}, {1}, int32);
  EXPECT_THAT([&] { (void)bitwise_and(f, i); },
              ThrowsMessage<UsageError>(HasSubstr("bitwise_and: the operands' dtype is float32")));
  EXPECT_THAT([&] { (void)left_shift(i, 1.5); },
              ThrowsMessage<UsageError>(HasSubstr("convert them to integers with astype")));
  EXPECT_THROW((void)bitwise_invert(f), UsageError);
  EXPECT_THROW((void)bitwise_xor(array_of({1}, {1}, uint64), array_of({1}, {1}, int64)), UsageError)
      << "no integer dtype has both";
  EXPECT_THAT([] { (void)right_shift(Array({true}, {1}), true); },
              ThrowsMessage<UsageError>(HasSubstr("bool cannot be shifted")));
}

TEST(Bitwise, logical_xor_is_true_where_one_alone_is_not_zero) {
  const double nan = std::nan("");
  const Array x = array_of({0, 2, 0, -1, nan}, {5}, float32);
  EXPECT_THAT(values_of(logical_xor(x, array_of({0, 0, 3, 4, 0}, {5}, float32))),
              ElementsAre(0, 1, 1, 0, 1));
}

TEST(Bitwise, isfinite_and_isinf_tell_numbers_from_the_rest) {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  for (const Dtype dtype : {float32, bfloat16}) {
    const Array x = array_of({0, -3, inf, -inf, nan}, {5}, dtype);
    EXPECT_EQ(isfinite(x).dtype(), bool_);
    EXPECT_THAT(values_of(isfinite(x)), ElementsAre(1, 1, 0, 0, 0)) << to_string(dtype);
    EXPECT_THAT(values_of(isinf(x)), ElementsAre(0, 0, 1, 1, 0)) << to_string(dtype);
  }
  EXPECT_THAT(values_of(isfinite(Array({false, true}, {2}))), ElementsAre(1, 1));
}

}  // namespace
}  // namespace holdfast
