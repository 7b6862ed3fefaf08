#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "holdfast/array.h"
#include "holdfast/base/error.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

template <Element T>
std::string printed(std::initializer_list<T> values) {
  return to_string(Array(values, {static_cast<int64_t>(values.size())}));
}

Array counting(const Shape& shape) {
  std::vector<int32_t> values(static_cast<size_t>(elements(shape)));
  std::iota(values.begin(), values.end(), 0);
  return {values, shape};
}

TEST(Print, small_arrays_on_one_line) {
  EXPECT_EQ(to_string(Array({1.F, 2.F, 3.F, 4.F}, {2, 2})),
            "array([[1, 2], [3, 4]], dtype=float32)");
  EXPECT_EQ(to_string(counting({2, 1, 2})), "array([[[0, 1]], [[2, 3]]], dtype=int32)");
  std::ostringstream out;
  out << Array({1, 2}, {2});
  EXPECT_EQ(out.str(), "array([1, 2], dtype=int32)");
}

TEST(Print, larger_ones_with_a_line_for_each_row) {
  EXPECT_EQ(to_string(counting({3, 10})),
            "array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],\n"
            "       [10, 11, 12, 13, 14, 15, 16, 17, 18, 19],\n"
            "       [20, 21, 22, 23, 24, 25, 26, 27, 28, 29]], dtype=int32)");
  EXPECT_EQ(to_string(counting({2, 2, 7})),
            "array([[[0, 1, 2, 3, 4, 5, 6],\n"
            "        [7, 8, 9, 10, 11, 12, 13]],\n"
            "\n"
            "       [[14, 15, 16, 17, 18, 19, 20],\n"
            "        [21, 22, 23, 24, 25, 26, 27]]], dtype=int32)");
}

TEST(Print, scalars_and_arrays_without_elements) {
  EXPECT_EQ(to_string(Array(5)), "array(5, dtype=int32)");
  EXPECT_EQ(to_string(Array(std::vector<float>{}, {0, 3})),
            "array([], shape=(0, 3), dtype=float32)");
  EXPECT_EQ(to_string(Array(std::vector<int8_t>{}, {0})), "array([], shape=(0,), dtype=int8)");
}

TEST(Print, integers_of_every_width) {
  EXPECT_EQ(printed<int8_t>({-128, 65, 127}), "array([-128, 65, 127], dtype=int8)");
  EXPECT_EQ(printed<uint8_t>({0, 65, 255}), "array([0, 65, 255], dtype=uint8)");
  EXPECT_EQ(printed<int16_t>({-32768}), "array([-32768], dtype=int16)");
  EXPECT_EQ(printed<uint16_t>({65535}), "array([65535], dtype=uint16)");
  EXPECT_EQ(printed<int32_t>({INT32_MIN}), "array([-2147483648], dtype=int32)");
  EXPECT_EQ(printed<uint32_t>({UINT32_MAX}), "array([4294967295], dtype=uint32)");
  EXPECT_EQ(printed<int64_t>({INT64_MIN}), "array([-9223372036854775808], dtype=int64)");
  EXPECT_EQ(printed<uint64_t>({UINT64_MAX}), "array([18446744073709551615], dtype=uint64)");
}

TEST(Print, bools_as_python_does) {
  EXPECT_EQ(printed({true, false}), "array([True, False], dtype=bool)");
}

TEST(Print, floats_with_the_digits_that_their_dtype_needs) {
  EXPECT_EQ(printed({0.1F, -2.5F, 100000.F, 1e20F, -0.F}),
            "array([0.1, -2.5, 100000, 1e+20, -0], dtype=float32)");
  EXPECT_EQ(printed({0.1, 1.0 / 3}), "array([0.1, 0.3333333333333333], dtype=float64)");
  EXPECT_EQ(printed({Float16(0.1F), Float16(1.F / 3), Float16(1000), Float16(65504)}),
            "array([0.1, 0.3333, 1000, 65500], dtype=float16)");
  EXPECT_EQ(printed({BFloat16(0.1F), BFloat16(3.14159F), BFloat16(256), BFloat16(1e30F)}),
            "array([0.1, 3.14, 256, 1e+30], dtype=bfloat16)");
}

TEST(Print, what_is_no_number) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(printed({kNan, -kNan, INFINITY, -INFINITY}),
            "array([nan, nan, inf, -inf], dtype=float32)");
  EXPECT_EQ(printed({Float16(kNan), Float16(-INFINITY)}), "array([nan, -inf], dtype=float16)");
}

// The elements of a printed one-dimensional array, read again.
std::vector<float> read_again(const std::string& text) {
  std::vector<float> values;
  const char* at = text.data() + text.find('[') + 1;
  while (true) {
    float value = 0;
    at = std::from_chars(at, text.data() + text.size(), value).ptr;
    values.push_back(value);
    if (*at == ']') return values;
    at += 2;
  }
}

// Arrays of at most a thousand elements print all of them.
template <typename T>
void expect_all_finite_ones_to_come_back() {
  std::vector<T> some;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    T value;
    value.bits = static_cast<uint16_t>(bits);
    if (std::isfinite(static_cast<float>(value))) some.push_back(value);
    if (some.size() < 1000 && bits < 0xffff) continue;
    const std::vector<float> again =
        read_again(to_string(Array(some, {static_cast<int64_t>(some.size())})));
    ASSERT_EQ(again.size(), some.size());
    for (size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(T(again[i]), some[i]) << static_cast<float>(some[i]);
    }
    some.clear();
  }
}

TEST(Print, every_float16_comes_back) { expect_all_finite_ones_to_come_back<Float16>(); }
TEST(Print, every_bfloat16_comes_back) { expect_all_finite_ones_to_come_back<BFloat16>(); }

TEST(Print, views_in_their_own_order) {
  const Array x = counting({2, 3});
  EXPECT_EQ(to_string(transpose(x)), "array([[0, 3], [1, 4], [2, 5]], dtype=int32)");
  EXPECT_EQ(to_string(slice(x, {{.step = -1}, {.start = 1}})),
            "array([[4, 5], [1, 2]], dtype=int32)");
}

TEST(Print, more_than_a_thousand_elements_by_the_ends_of_each_axis) {
  EXPECT_EQ(to_string(counting({1001})), "array([0, 1, 2, ..., 998, 999, 1000], dtype=int32)");
  EXPECT_NE(to_string(counting({1000})).find(" 500,"), std::string::npos);
  EXPECT_EQ(to_string(counting({100, 100})),
            "array([[0, 1, 2, ..., 97, 98, 99],\n"
            "       [100, 101, 102, ..., 197, 198, 199],\n"
            "       [200, 201, 202, ..., 297, 298, 299],\n"
            "       ...,\n"
            "       [9700, 9701, 9702, ..., 9797, 9798, 9799],\n"
            "       [9800, 9801, 9802, ..., 9897, 9898, 9899],\n"
            "       [9900, 9901, 9902, ..., 9997, 9998, 9999]], dtype=int32)");
  EXPECT_EQ(to_string(transpose(counting({1000, 2}))),
            "array([[0, 2, 4, ..., 1994, 1996, 1998],\n"
            "       [1, 3, 5, ..., 1995, 1997, 1999]], dtype=int32)");
}

TEST(Print, the_ends_of_an_array_that_no_memory_could_hold) {
  const Array x = broadcast_to(Array(1), {1 << 20, 6, 1 << 20});
  const std::string text = to_string(x);
  EXPECT_EQ(std::ranges::count(text, '1'), 6 * 6 * 6);
}

TEST(Print, no_array_is_refused) { EXPECT_THROW(to_string(Array()), UsageError); }

}  // namespace
}  // namespace holdfast
