#include "holdfast/base/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>

#include "holdfast/base/error.h"

namespace holdfast::env {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kName = "HOLDFAST_ENV_TEST";
constexpr std::array<std::string_view, 2> kWords{"low", "high"};

class EnvTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kName); }
  static const char* holding(const char* value) {
    setenv(kName, value, 1);
    return kName;
  }
};

// The refusal names the variable, what it holds and what it may hold.
void expect_refused(const char* value, const char* may_hold, const std::function<void()>& parse) {
  SCOPED_TRACE(value);
  setenv(kName, value, 1);
  try {
    parse();
    ADD_FAILURE() << "was read";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(kName));
    EXPECT_THAT(error.what(), HasSubstr(std::string("'") + value + "'"));
    EXPECT_THAT(error.what(), HasSubstr(may_hold));
  }
}

TEST_F(EnvTest, an_unset_variable_is_nothing_to_every_reader) {
  unsetenv(kName);
  EXPECT_EQ(text(kName), std::nullopt);
  EXPECT_EQ(flag(kName), std::nullopt);
  EXPECT_EQ(number(kName), std::nullopt);
  EXPECT_EQ(bytes(kName), std::nullopt);
  EXPECT_EQ(choice(kName, kWords), std::nullopt);
  EXPECT_THAT(list(kName), IsEmpty());
}

TEST_F(EnvTest, an_empty_variable_is_nothing_to_every_reader) {
  holding("");
  EXPECT_EQ(text(kName), std::nullopt);
  EXPECT_EQ(flag(kName), std::nullopt);
  EXPECT_EQ(number(kName), std::nullopt);
  EXPECT_EQ(bytes(kName), std::nullopt);
  EXPECT_EQ(choice(kName, kWords), std::nullopt);
  EXPECT_THAT(list(kName), IsEmpty());
}

TEST_F(EnvTest, text_is_given_as_it_is) { EXPECT_EQ(text(holding(" a, B ")), " a, B "); }

TEST_F(EnvTest, the_variable_is_read_at_each_call) {
  EXPECT_EQ(number(holding("1")), 1U);
  EXPECT_EQ(number(holding("2")), 2U);
}

TEST_F(EnvTest, a_flag_is_read_in_every_spelling) {
  for (const char* on : {"1", "on", "true", "yes", "ON", "True"})
    EXPECT_EQ(flag(holding(on)), true);
  for (const char* off : {"0", "off", "false", "no", "Off", "NO"}) {
    EXPECT_EQ(flag(holding(off)), false);
  }
}

TEST_F(EnvTest, a_flag_that_is_none_is_refused_by_name) {
  for (const char* value : {"2", "maybe", "onn", "-1"}) {
    expect_refused(value, "0 or 1", [] { flag(kName); });
  }
}

TEST_F(EnvTest, a_choice_is_one_of_the_words_in_any_case) {
  EXPECT_EQ(choice(holding("low"), kWords), 0U);
  EXPECT_EQ(choice(holding(" HIGH "), kWords), 1U);
  expect_refused("middle", "it may hold low or high", [] { (void)choice(kName, kWords); });
}

TEST_F(EnvTest, numbers_are_read_up_to_the_largest) {
  EXPECT_EQ(number(holding("0")), 0U);
  EXPECT_EQ(number(holding("42")), 42U);
  EXPECT_EQ(number(holding("18446744073709551615")), 18446744073709551615U);
}

TEST_F(EnvTest, a_number_that_is_none_is_refused_by_name) {
  for (const char* value : {"-1", "1.5", "12x", "x", "0x10", "18446744073709551616", "1 2"}) {
    expect_refused(value, "a whole number", [] { number(kName); });
  }
}

TEST_F(EnvTest, sizes_are_read_with_their_units) {
  EXPECT_EQ(bytes(holding("4096")), 4096_B);
  EXPECT_EQ(bytes(holding("64KiB")), 64_KiB);
  EXPECT_EQ(bytes(holding("64K")), 64_KiB);
  EXPECT_EQ(bytes(holding("1.5GiB")), 1536_MiB);
  EXPECT_EQ(bytes(holding("2G")), 2_GiB);
  EXPECT_EQ(bytes(holding("3MiB")), 3_MiB);
  EXPECT_EQ(bytes(holding("0")), 0_B);
}

TEST_F(EnvTest, a_size_that_is_none_is_refused_by_name) {
  for (const char* value : {"many", "-1", "1.5.5", "4 cows", "KiB", "inf", "nan", "0x10"}) {
    expect_refused(value, "a size such as 4096, 64KiB or 1.5GiB", [] { bytes(kName); });
  }
}

TEST_F(EnvTest, a_size_that_64_bits_cannot_hold_is_refused) {
  EXPECT_EQ(parse_bytes("99999999999999999999"), std::nullopt);
  EXPECT_EQ(parse_bytes("99999999999GiB"), std::nullopt);
  EXPECT_EQ(parse_bytes("1e300"), std::nullopt);
}

TEST_F(EnvTest, a_whole_number_of_bytes_is_read_to_the_byte) {
  EXPECT_EQ(parse_bytes("9007199254740993"), Bytes{9007199254740993}) << "2^53 + 1";
}

TEST_F(EnvTest, text_of_other_sources_is_parsed_alike) {
  EXPECT_EQ(parse_bytes("512"), 512_B);
  EXPECT_EQ(parse_bytes("0.5KiB"), 512_B);
  EXPECT_EQ(parse_bytes(""), std::nullopt);
  EXPECT_EQ(parse_bytes("lots"), std::nullopt);
}

TEST_F(EnvTest, a_list_is_split_at_commas_and_trimmed_and_has_no_empty_items) {
  EXPECT_THAT(list(holding("a")), ElementsAre("a"));
  EXPECT_THAT(list(holding(" a , b b,,\tc ,")), ElementsAre("a", "b b", "c"));
  EXPECT_THAT(list(holding(" , ,")), IsEmpty());
}

}  // namespace
}  // namespace holdfast::env
