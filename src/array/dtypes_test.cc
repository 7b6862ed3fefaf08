#include "holdfast/dtypes.h"

#include <gtest/gtest.h>

#include <array>

namespace holdfast {
namespace {

constexpr std::array<Dtype, kernel::kDtypes> kAll{bool_,    int8,    uint8,  int16,  uint16,
                                                  int32,    uint32,  int64,  uint64, float16,
                                                  bfloat16, float32, float64};

// clang-format off
enum Short { b1, i1, u1, i2, u2, i4, u4, i8, u8, f2, bf, f4, f8 };
// MLX's table; rows and columns in the order of Dtype.
constexpr std::array<std::array<Short, kernel::kDtypes>, kernel::kDtypes> kTable{{
    //b1  i1  u1  i2  u2  i4  u4  i8  u8  f2  bf  f4  f8
    {{b1, i1, u1, i2, u2, i4, u4, i8, u8, f2, bf, f4, f8}},  // b1
    {{i1, i1, i2, i2, i4, i4, i8, i8, f4, f2, bf, f4, f8}},  // i1
    {{u1, i2, u1, i2, u2, i4, u4, i8, u8, f2, bf, f4, f8}},  // u1
    {{i2, i2, i2, i2, i4, i4, i8, i8, f4, f2, bf, f4, f8}},  // i2
    {{u2, i4, u2, i4, u2, i4, u4, i8, u8, f2, bf, f4, f8}},  // u2
    {{i4, i4, i4, i4, i4, i4, i8, i8, f4, f2, bf, f4, f8}},  // i4
    {{u4, i8, u4, i8, u4, i8, u4, i8, u8, f2, bf, f4, f8}},  // u4
    {{i8, i8, i8, i8, i8, i8, i8, i8, f4, f2, bf, f4, f8}},  // i8
    {{u8, f4, u8, f4, u8, f4, u8, f4, u8, f2, bf, f4, f8}},  // u8
    {{f2, f2, f2, f2, f2, f2, f2, f2, f2, f2, f4, f4, f8}},  // f2
    {{bf, bf, bf, bf, bf, bf, bf, bf, bf, f4, bf, f4, f8}},  // bf
    {{f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f4, f8}},  // f4
    {{f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8, f8}},  // f8
}};
// clang-format on

TEST(Dtypes, promote_as_in_the_table_of_mlx) {
  for (size_t i = 0; i < kAll.size(); ++i) {
    ASSERT_EQ(static_cast<size_t>(kAll[i]), i);
    for (size_t j = 0; j < kAll.size(); ++j) {
      EXPECT_STREQ(to_string(promote(kAll[i], kAll[j])), to_string(kAll[kTable[i][j]]))
          << to_string(kAll[i]) << " with " << to_string(kAll[j]);
    }
  }
}

TEST(Dtypes, promotion_does_not_depend_on_the_order_of_two) {
  for (const Dtype a : kAll) {
    for (const Dtype b : kAll) EXPECT_EQ(promote(a, b), promote(b, a));
  }
}

TEST(Dtypes, promotion_of_floats_does_not_depend_on_the_order_of_many) {
  for (const Dtype a : kAll) {
    for (const Dtype b : kAll) {
      for (const Dtype c : kAll) {
        if (!is_floating(a) || !is_floating(b) || !is_floating(c)) continue;
        EXPECT_EQ(promote(promote(a, b), c), promote(a, promote(b, c)));
      }
    }
  }
}

TEST(Dtypes, are_of_one_kind) {
  for (const Dtype d : kAll) {
    const char kind = to_string(d)[0];
    EXPECT_EQ(is_floating(d), kind == 'f' || d == bfloat16) << to_string(d);
    EXPECT_EQ(is_signed_integer(d), kind == 'i') << to_string(d);
    EXPECT_EQ(is_unsigned_integer(d), kind == 'u') << to_string(d);
    EXPECT_EQ(is_integer(d), kind == 'i' || kind == 'u') << to_string(d);
    EXPECT_EQ(floating(d), is_floating(d) ? d : float32) << to_string(d);
  }
}

TEST(Dtypes, belong_to_the_types_of_cpp) {
  const auto expect = []<Element T>(T, Dtype dtype) {
    EXPECT_STREQ(to_string(DtypeOf<T>::value), to_string(dtype));
    EXPECT_EQ(size_of(DtypeOf<T>::value).value, sizeof(T));
  };
  expect(false, bool_);
  expect(int8_t{}, int8);
  expect(uint8_t{}, uint8);
  expect(int16_t{}, int16);
  expect(uint16_t{}, uint16);
  expect(int32_t{}, int32);
  expect(uint32_t{}, uint32);
  expect(int64_t{}, int64);
  expect(uint64_t{}, uint64);
  expect(Float16{}, float16);
  expect(BFloat16{}, bfloat16);
  expect(float{}, float32);
  expect(double{}, float64);
  static_assert(!Element<char>);
  static_assert(!Element<long double>);
}

}  // namespace
}  // namespace holdfast
