#include "holdfast/base/bytes.h"

#include <gtest/gtest.h>

#include "holdfast/base/range_test.h"

namespace holdfast {
namespace {

TEST(Bytes, literals_are_powers_of_1024) {
  EXPECT_EQ(1_KiB, 1024_B);
  EXPECT_EQ(1_MiB, 1024_KiB);
  EXPECT_EQ(1_GiB, 1024_MiB);
}

TEST(Bytes, arithmetic_is_that_of_numbers) {
  EXPECT_EQ(3_B + 4_B, 7_B);
  EXPECT_EQ(9_B - 4_B, 5_B);
  EXPECT_EQ(3_B * 4, 12_B);
  EXPECT_EQ(13_B / 4, 3_B);
  Bytes b = 10_B;
  b += 5_B;
  EXPECT_EQ(b, 15_B);
  b -= 1_B;
  EXPECT_EQ(b, 14_B);
  EXPECT_LT(13_B, b);
}

TEST(Bytes, sizes_that_would_read_alike_are_told_apart) {
  using Both = std::pair<std::string, std::string>;
  EXPECT_EQ(told_apart(4100_B, 4_KiB), Both("4100 B", "4096 B"));
  EXPECT_EQ(told_apart(4_KiB, 4_KiB), Both("4.0 KiB", "4.0 KiB"));
  EXPECT_EQ(told_apart(8_KiB, 4_KiB), Both("8.0 KiB", "4.0 KiB"));
  EXPECT_EQ(told_apart(1_MiB, 1_MiB - 1_B), Both("1.0 MiB", "1024.0 KiB"));
}

TEST(Bytes, none_is_false) {
  EXPECT_FALSE(Bytes());
  EXPECT_TRUE(1_B);
}

TEST(Bytes, text_has_the_unit_that_suits) {
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(768_B), "768 B");
  EXPECT_EQ(to_string(1023_B), "1023 B");
  EXPECT_EQ(to_string(1_KiB), "1.0 KiB");
  EXPECT_EQ(to_string(64_KiB), "64.0 KiB");
  EXPECT_EQ(to_string(1536_MiB), "1.5 GiB");
  EXPECT_EQ(to_string(3_MiB), "3.0 MiB");
  EXPECT_EQ(to_string(2048_GiB), "2.0 TiB");
  EXPECT_EQ(to_string(kMaxBytes), "16.0 EiB");
}

TEST(ByteRange, a_range_fits_up_to_the_last_byte_and_no_further) {
  EXPECT_TRUE(range(0, 10).fits_in(10_B));
  EXPECT_TRUE(range(4, 6).fits_in(10_B));
  EXPECT_FALSE(range(4, 7).fits_in(10_B));
  EXPECT_TRUE(range(10, 0).fits_in(10_B));
  EXPECT_FALSE(range(11, 0).fits_in(10_B));
}

TEST(ByteRange, fits_in_is_not_fooled_by_a_sum_that_overflows) {
  const uint64_t max = kMaxBytes.value;
  EXPECT_FALSE(range(8, max).fits_in(10_B)) << "offset + length is 7 in 64 bits";
  EXPECT_FALSE(range(max, 8).fits_in(10_B));
  EXPECT_FALSE(range(max, max).fits_in(10_B));
  EXPECT_TRUE(range(0, max).fits_in(kMaxBytes));
  EXPECT_FALSE(range(1, max).fits_in(kMaxBytes));
}

TEST(ByteRange, ranges_that_merely_touch_do_not_overlap) {
  EXPECT_TRUE(range(0, 5).overlaps(range(4, 2)));
  EXPECT_TRUE(range(4, 2).overlaps(range(0, 5)));
  EXPECT_FALSE(range(0, 5).overlaps(range(5, 2)));
  EXPECT_FALSE(range(5, 2).overlaps(range(0, 5)));
  EXPECT_TRUE(range(0, 9).overlaps(range(3, 1)));
}

TEST(ByteRange, an_empty_range_overlaps_nothing_and_is_contained_everywhere) {
  EXPECT_TRUE(range(3, 0).empty());
  EXPECT_FALSE(range(3, 0).overlaps(range(0, 9)));
  EXPECT_FALSE(range(0, 9).overlaps(range(3, 0)));
  EXPECT_FALSE(range(3, 0).overlaps(range(3, 0)));
  EXPECT_TRUE(range(5, 1).contains(range(100, 0)));
}

TEST(ByteRange, a_range_contains_what_lies_inside_it) {
  EXPECT_TRUE(range(2, 5).contains(range(2, 5)));
  EXPECT_TRUE(range(2, 5).contains(range(3, 1)));
  EXPECT_FALSE(range(2, 5).contains(range(1, 2)));
  EXPECT_FALSE(range(2, 5).contains(range(6, 2)));
}

TEST(ByteRange, the_hull_covers_both_and_the_gap) {
  EXPECT_EQ(range(2, 3).hull(range(8, 2)), range(2, 8));
  EXPECT_EQ(range(8, 2).hull(range(2, 3)), range(2, 8));
  EXPECT_EQ(range(2, 8).hull(range(3, 1)), range(2, 8));
}

TEST(ByteRange, an_empty_range_adds_nothing_to_a_hull) {
  EXPECT_EQ(range(100, 0).hull(range(2, 3)), range(2, 3));
  EXPECT_EQ(range(2, 3).hull(range(100, 0)), range(2, 3));
}

}  // namespace
}  // namespace holdfast
