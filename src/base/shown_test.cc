#include "holdfast/base/shown.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using namespace std::string_literals;

TEST(Shown, a_plain_name_stands_in_quotes) {
  EXPECT_EQ(shown("weights"), "'weights'");
  EXPECT_EQ(shown(""), "''");
  EXPECT_EQ(shown("a b~"), "'a b~'");
}

TEST(Shown, bytes_that_cannot_be_printed_are_escaped) {
  EXPECT_EQ(shown("a\0b\n\r\t\x1b\x7f"s), "'a\\0b\\n\\r\\t\\x1b\\x7f'");
}

TEST(Shown, utf8_stays_and_what_is_none_is_escaped) {
  EXPECT_EQ(shown("gr\xc3\xb6\xc3\x9f"
                  "e \xe2\x82\xac \xf0\x9f\x8c\x8a"),
            "'gr\xc3\xb6\xc3\x9f"
            "e \xe2\x82\xac \xf0\x9f\x8c\x8a'");
  EXPECT_EQ(shown("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(shown("\xc3"
                  "a\x80"),
            "'\\xc3"
            "a\\x80'");
}

TEST(Shown, a_long_one_is_cut_where_a_character_ends_and_its_length_is_said) {
  EXPECT_EQ(shown(std::string(64, 'a')), "'" + std::string(64, 'a') + "'");
  EXPECT_EQ(shown(std::string(65, 'a')), "'" + std::string(64, 'a') + "...' (65 bytes)");
  EXPECT_EQ(shown("abc\xe2\x82\xac", 5), "'abc...' (6 bytes)");
  EXPECT_EQ(shown("abc\xe2\x82\xac", 6), "'abc\xe2\x82\xac'");
  EXPECT_LT(shown(std::string(1'000'000, '\0')).size(), 200U);
}

TEST(ShownPath, begins_at_the_projects_own_folder) {
  EXPECT_EQ(shown_path("/home/a/project/src/base/x.cc"), "src/base/x.cc");
  EXPECT_EQ(shown_path("../../src/base/x.cc"), "src/base/x.cc");
  EXPECT_EQ(shown_path("src/x.cc"), "src/x.cc");
  EXPECT_EQ(shown_path("/usr/src/project/tests/y.cc"), "tests/y.cc") << "the last one counts";
  EXPECT_EQ(shown_path("/opt/mysrc/y.cc"), "y.cc") << "a folder, not the end of its name";
  EXPECT_EQ(shown_path("y.cc"), "y.cc");
}

}  // namespace
}  // namespace holdfast
