#include "holdfast/kernel/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(Diagnostics, an_error_names_kernel_variant_place_words_line_and_token) {
  const Diagnostic diagnostic{"scale.metal", 3, 12, "'foo' was not declared", "  float a = foo;"};
  EXPECT_EQ(describe_errors("scale", "x: float16[1] -> y: float16[1]; N = 4", {{diagnostic}}),
            "kernel 'scale' (x: float16[1] -> y: float16[1]; N = 4) does not compile; correct its "
            "text:\n"
            "scale.metal:3:12: 'foo' was not declared\n"
            "  |   float a = foo;\n"
            "  |            ^");
}

TEST(Diagnostics, what_is_not_known_is_not_shown) {
  EXPECT_EQ(describe_errors("k", "", {{{.message = "words"}}}),
            "kernel 'k' does not compile; correct its text:\nwords");
  EXPECT_THAT(describe_errors("k", "", {{{.file = "f", .line = 2, .message = "words"}}}),
              EndsWith("\nf:2: words"));
  EXPECT_THAT(describe_errors("k", "", {{{.line = 2, .message = "words", .source_line = " \t"}}}),
              EndsWith("\nline 2: words"));
}

TEST(Diagnostics, a_column_outside_the_line_has_no_caret) {
  const auto caret_at = [](uint32_t column) {
    return describe_errors("k", "",
                           {{{.file = "f", .line = 1, .column = column, .source_line = "abc"}}});
  };
  EXPECT_THAT(caret_at(3), EndsWith("\n  | abc\n  |   ^"));
  EXPECT_THAT(caret_at(4), EndsWith("\n  | abc\n  |    ^"));
  EXPECT_THAT(caret_at(5), EndsWith("\n  | abc"));
  EXPECT_THAT(caret_at(4000000000), EndsWith("\n  | abc"));
}

TEST(Diagnostics, a_long_line_is_cut_around_the_token) {
  const std::string line = std::string(5000, 'a') + "TOKEN" + std::string(5000, 'b');
  const std::string text = describe_errors(
      "k", "", {{{.file = "f", .line = 1, .column = 5001, .message = "m", .source_line = line}}});
  EXPECT_LT(text.size(), 500U);
  EXPECT_THAT(text, HasSubstr("aTOKENb"));
  EXPECT_EQ(text.substr(text.rfind('\n')).find('^'),
            text.substr(text.find("\n  | ")).find("TOKEN"));
}

TEST(Diagnostics, long_words_are_cut_and_their_length_is_said) {
  const auto described = [](size_t bytes) {
    const std::vector<Diagnostic> one{{.message = std::string(bytes, 'w')}};
    return describe_errors("k", "", one);
  };
  EXPECT_THAT(described(4000), ::testing::EndsWith("\n" + std::string(4000, 'w')));
  EXPECT_THAT(described(1'000'000),
              ::testing::EndsWith("\n" + std::string(4000, 'w') + "... (1000000 bytes)"));
}

TEST(Diagnostics, at_most_eight_are_shown_and_the_rest_is_counted) {
  const std::vector<Diagnostic> many(11, {.message = "again"});
  EXPECT_THAT(describe_errors("k", "", many), EndsWith("again\nand 3 more"));
}

TEST(Diagnostics, whatever_bytes_come_in_what_comes_out_can_be_printed) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string text = describe_errors(
      bytes, bytes,
      {{{.file = bytes, .line = 1, .column = 7, .message = bytes, .source_line = bytes}}});
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << int{c};
}

TEST(Diagnostics, lines_are_counted_from_one_and_end_as_on_any_system) {
  EXPECT_EQ(line_of("a\r\nb\n\nd", 1), "a");
  EXPECT_EQ(line_of("a\r\nb\n\nd", 2), "b");
  EXPECT_EQ(line_of("a\r\nb\n\nd", 3), "");
  EXPECT_EQ(line_of("a\r\nb\n\nd", 4), "d");
  EXPECT_EQ(line_of("a\r\nb\n\nd", 5), "");
  EXPECT_EQ(line_of("a", 0), "");
  EXPECT_EQ(line_of("", 4000000000), "");
}

}  // namespace
}  // namespace holdfast::kernel
