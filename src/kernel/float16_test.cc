#include "holdfast/kernel/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace holdfast::kernel {
namespace {

TEST(Float16, every_value_survives_the_way_through_float) {
  for (uint32_t i = 0; i < 65536; ++i) {
    Float16 half;
    half.bits = static_cast<uint16_t>(i);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value)))) << i;
    } else {
      EXPECT_EQ(Float16(value).bits, half.bits) << i;
    }
  }
}

TEST(Float16, rounds_to_the_nearest_and_ties_to_even) {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    Float16 low;
    Float16 high;
    low.bits = static_cast<uint16_t>(i);
    high.bits = static_cast<uint16_t>(i + 1);
    const float a = static_cast<float>(low);
    const float b = static_cast<float>(high);
    const float middle = (a + b) / 2;
    EXPECT_EQ(Float16(middle).bits, i % 2 == 0 ? low.bits : high.bits) << i;
    EXPECT_EQ(Float16(std::nextafter(middle, a)).bits, low.bits) << i;
    EXPECT_EQ(Float16(std::nextafter(middle, b)).bits, high.bits) << i;
    EXPECT_EQ(Float16(-middle).bits, Float16(middle).bits | 0x8000) << i;
  }
}

TEST(Float16, what_is_too_large_is_infinite) {
  EXPECT_EQ(Float16(65504.0F).bits, 0x7bff);
  EXPECT_EQ(Float16(std::nextafter(65520.0F, 0.0F)).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Float16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
}

TEST(BFloat16, every_value_survives_the_way_through_float) {
  for (uint32_t i = 0; i < 65536; ++i) {
    BFloat16 brain;
    brain.bits = static_cast<uint16_t>(i);
    const float value = static_cast<float>(brain);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << i;
    } else {
      EXPECT_EQ(BFloat16(value).bits, brain.bits) << i;
    }
  }
}

TEST(BFloat16, rounds_ties_to_even) {
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
}

}  // namespace
}  // namespace holdfast::kernel
