#include "holdfast/base/rounding.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace holdfast {
namespace {

TEST(Rounding, pieces_hold_everything_and_no_piece_is_empty) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(ceil_div(uint64_t{1} << 40, uint64_t{3}), (uint64_t{1} << 40) / 3 + 1);
}

TEST(Rounding, up_to_a_multiple) {
  EXPECT_EQ(round_up<size_t>(0, 4096), 0U);
  EXPECT_EQ(round_up<size_t>(1, 4096), 4096U);
  EXPECT_EQ(round_up<size_t>(4096, 4096), 4096U);
  EXPECT_EQ(round_up<size_t>(4097, 4096), 8192U);
}

}  // namespace
}  // namespace holdfast
