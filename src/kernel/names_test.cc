#include "holdfast/kernel/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace holdfast::kernel {
namespace {

TEST(Names, an_identifier_has_letters_digits_and_underscores_and_begins_with_no_digit) {
  for (const char* good : {"a", "z", "A", "Z", "_", "a0", "a9", "zZ_09", "_1"}) {
    EXPECT_TRUE(is_identifier(good)) << good;
  }
  for (const char* bad : {"", "0", "9a", "a`", "a{", "@a", "[", "a/", "a:", "a-b", "\xc3\xa4"}) {
    EXPECT_FALSE(is_identifier(bad)) << bad;
  }
  EXPECT_FALSE(is_identifier(std::string_view("a\0b", 3)));
}

TEST(Names, those_of_compilers_are_reserved_and_their_neighbours_are_not) {
  for (const char* reserved : {"__a", "_A", "_Z", "hf_", "float2", "float4", "defined"}) {
    EXPECT_TRUE(is_reserved(reserved)) << reserved;
  }
  for (const char* free : {"_a", "_", "_0", "a__b", "hf", "h_f", "float1", "float5", "x2", "2"}) {
    EXPECT_FALSE(is_reserved(free)) << free;
  }
}

TEST(Names, the_nearest_one_is_meant) {
  const std::array<std::string_view, 4> known{"eps", "epsilon", "scale", "scales_of_all"};
  EXPECT_EQ(did_you_mean("epsilom", known), "; did you mean 'epsilon'?");
  EXPECT_EQ(did_you_mean("scalee", known), "; did you mean 'scale'?");
  EXPECT_EQ(did_you_mean("SCALE", known), "; did you mean 'scale'?") << "case is forgiven";
  EXPECT_EQ(did_you_mean("scale", known), "") << "the name itself is no proposal";
  EXPECT_EQ(did_you_mean("sc", known), "") << "three edits away";
  EXPECT_EQ(did_you_mean("scae", known), "; did you mean 'scale'?");
  EXPECT_EQ(did_you_mean("sca_e_", known), "; did you mean 'scale'?") << "two edits away";
  EXPECT_EQ(did_you_mean("s_a_e_", known), "");
  EXPECT_EQ(did_you_mean("q", known), "");
  EXPECT_EQ(did_you_mean("q", std::array<std::string_view, 1>{"x"}), "")
      << "one letter for another is no likeness";
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(Names, long_ones_are_not_compared) {
  const std::string long_name(65, 'a');
  const std::string known_name = long_name.substr(1) + "b";
  const std::array<std::string_view, 1> known{known_name};
  EXPECT_EQ(did_you_mean(long_name, known), "");
  const std::string at_limit = long_name.substr(1);
  const std::string near = at_limit.substr(1) + "b";
  const std::array<std::string_view, 1> others{near};
  EXPECT_EQ(did_you_mean(at_limit, others), "; did you mean '" + near + "'?");
}

}  // namespace
}  // namespace holdfast::kernel
