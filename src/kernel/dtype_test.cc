#include "holdfast/kernel/dtype.h"

#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

TEST(Dtype, names_are_read_back) {
  for (unsigned i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(Dtype, sizes_are_those_of_the_names) {
  EXPECT_EQ(size_of(Dtype::bool_), 1_B);
  EXPECT_EQ(size_of(Dtype::int8), 1_B);
  EXPECT_EQ(size_of(Dtype::float16), 2_B);
  EXPECT_EQ(size_of(Dtype::bfloat16), 2_B);
  EXPECT_EQ(size_of(Dtype::float32), 4_B);
  EXPECT_EQ(size_of(Dtype::float64), 8_B);
  EXPECT_EQ(size_of(Dtype::uint64), 8_B);
}

TEST(Dtype, kernel_text_has_metals_names) {
  EXPECT_STREQ(kernel_type(Dtype::float16), "half");
  EXPECT_STREQ(kernel_type(Dtype::bfloat16), "bfloat");
  EXPECT_STREQ(kernel_type(Dtype::uint32), "uint");
  EXPECT_STREQ(kernel_type(Dtype::int64), "long");
}

}  // namespace
}  // namespace holdfast::kernel
