#include "holdfast/kernel/generate/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(std::string_view text) {
  std::vector<std::string> result;
  for (const Token& token : tokenize(text)) result.emplace_back(token.text);
  return result;
}

TEST(Tokens, identifiers_numbers_literals_and_punctuation) {
  EXPECT_THAT(
      texts("x[i]+=1.5e-3f*0x1p+2,1'000u;"),
      ElementsAre("x", "[", "i", "]", "+", "=", "1.5e-3f", "*", "0x1p+2", ",", "1'000u", ";"));
  EXPECT_THAT(texts("a->b::c...d .5"), ElementsAre("a", "->", "b", "::", "c", "...", "d", ".5"));
  EXPECT_THAT(texts(R"("a\"b" 'x' u8"y" L'z' u'v' U"w")"),
              ElementsAre(R"("a\"b")", "'x'", "u8\"y\"", "L'z'", "u'v'", "U\"w\""));
}

TEST(Tokens, comments_are_gaps) {
  EXPECT_THAT(texts("a // b\nc /* d\n e */ f"), ElementsAre("a", "c", "f"));
  EXPECT_THAT(texts("a // b \\\n still b\nc"), ElementsAre("a", "c"));
  EXPECT_THAT(texts("a \\\r\nb \\\nc"), ElementsAre("a", "b", "c")) << "lines joined, either end";
  EXPECT_THAT(texts("a /* b"), ElementsAre("a"));
  EXPECT_THAT(texts("\"// no comment\" b"), ElementsAre("\"// no comment\"", "b"));
}

TEST(Tokens, raw_strings_end_with_their_delimiter) {
  EXPECT_THAT(texts("R\"d(a)\" b)d\" c"), ElementsAre("R\"d(a)\" b)d\"", "c"));
  EXPECT_THAT(texts("R\"(a"), ElementsAre("R\"(a"));
  EXPECT_THAT(texts("R\"a"), ElementsAre("R\"a"));
}

TEST(Tokens, an_unterminated_literal_ends_with_its_line) {
  EXPECT_THAT(texts("don't\nx"), ElementsAre("don", "'t", "x"));
  EXPECT_THAT(texts("\"a\\"), ElementsAre("\"a\\"));
}

TEST(Tokens, members_follow_a_dot_or_an_arrow) {
  std::vector<std::string> members;
  for (const Token& token : tokenize("p.x + q -> y + .z + v...w + 1.f + a. /**/ b")) {
    if (token.member) members.emplace_back(token.text);
  }
  EXPECT_THAT(members, ElementsAre("x", "y", "z", "b"));
}

TEST(Tokens, directives_reach_over_continued_lines) {
  std::vector<std::string> inside;
  for (const Token& token : tokenize("a\n  #if N \\\n > M /* x\n */ && O\nb # c\n#endif")) {
    if (token.in_directive) inside.emplace_back(token.text);
  }
  EXPECT_THAT(inside, ElementsAre("#", "if", "N", ">", "M", "&", "&", "O", "#", "endif"));
}

TEST(Names, are_told_apart_by_where_they_stand) {
  const Names names = names_in("#define A B\nx.y = z; // w\n\"v\"");
  EXPECT_THAT(names.identifiers, ElementsAre("A", "B", "define", "x", "z"));
  EXPECT_THAT(names.members, ElementsAre("y"));
  EXPECT_THAT(names.in_directives, ElementsAre("A", "B", "define"));
}

// Text that has much of what the tokenizer knows.
std::string random_text() {
  const std::vector<std::string> pieces{
      "/*",   "*/",  "//",  "\n", "\\\n", "\"", "'", "R\"(", ")\"", "#", ".",
      "->",   "x",   "1e+", "\\", "\r",   "u8", " ", "...",  "R",   "(", std::string(1, '\0'),
      "\xff", "\t#", "::",  "L"};
  std::string text;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(
           rc::gen::oneOf(rc::gen::elementOf(pieces), rc::gen::string<std::string>()))) {
    text += piece;
  }
  return text;
}

RC_GTEST_PROP(Tokens, and_the_gaps_between_them_are_the_text, ()) {
  const std::string text = random_text();
  size_t end = 0;
  for (const Token& token : tokenize(text)) {
    RC_ASSERT(token.offset >= end);
    RC_ASSERT(!token.text.empty());
    RC_ASSERT(text.substr(token.offset, token.text.size()) == token.text);
    // A gap is blank, a comment or a continuation.
    const std::string gap = text.substr(end, token.offset - end);
    RC_ASSERT(texts(gap).empty());
    end = token.offset + token.text.size();
  }
  RC_ASSERT(texts(text.substr(end)).empty());
}

}  // namespace
}  // namespace holdfast::kernel
