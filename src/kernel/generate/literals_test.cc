#include "holdfast/kernel/generate/literals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {
namespace {

using ::testing::UnorderedElementsAre;

std::string suffixed(std::string_view text) {
  return with_suffixes(text, unsuffixed_literals(text, pasting_macros(text)));
}

TEST(Literals, floating_ones_without_a_suffix_get_one) {
  for (const char* literal : {"0.5", "1.", ".5", "1e10", "1.5e-3", "1E+2", "1'000.25", "0x1p3",
                              "0x1.8p-2", "0X.8P1", "0e0", "00.5"}) {
    EXPECT_EQ(suffixed(std::string("a*") + literal + ";"), std::string("a*") + literal + "f;");
  }
}

TEST(Literals, others_stay_as_they_are) {
  for (const char* literal :
       {"0.5f",   "0.5F",  "0.5h",  "0.5H",  "0.5L", "0.5l",  "0.5_x", "1e10f",
        "0x1p3f", "1",     "0x1e5", "0x1F",  "1u",   "0b101", "1.2.3", "1e",
        "1e+",    "0x1.8", "0x1p",  "1'000", "1ul",  "0.5bf"}) {
    EXPECT_EQ(suffixed(literal), literal);
  }
  EXPECT_EQ(suffixed("v.x + a[0].y + s.e1"), "v.x + a[0].y + s.e1");
}

TEST(Literals, in_comments_and_strings_are_none) {
  for (const char* text : {"// 0.5", "/* 0.5 */", "\"0.5\"", "'5'", "R\"(0.5)\""}) {
    EXPECT_EQ(suffixed(text), text);
  }
  EXPECT_EQ(suffixed("1.0/*2.0*/+3.0// 4.0\n5.0"), "1.0f/*2.0*/+3.0f// 4.0\n5.0f");
}

TEST(Literals, those_of_macros_count_and_those_of_other_directives_do_not) {
  EXPECT_EQ(suffixed("#define EPS 1e-5\n#define F(x) ((x) * \\\n 0.5)\nEPS"),
            "#define EPS 1e-5f\n#define F(x) ((x) * \\\n 0.5f)\nEPS");
  for (const char* text :
       {"#if 0.5", "#pragma unroll 1.5", "#line 1 \"a\" 0.5", "#include <v0.5>", "#error 0.5"}) {
    EXPECT_EQ(suffixed(text), text);
  }
  EXPECT_EQ(suffixed("#define A 1.0\n#if B 2.0\n3.0"), "#define A 1.0f\n#if B 2.0\n3.0f");
}

TEST(Literals, what_macros_paste_or_make_strings_of_stays) {
  const std::string_view macros =
      "#define F(x) x##f\n#define S(x) #x\n#define C(a, b) a + b\n#define T 0.5##f\n";
  EXPECT_THAT(pasting_macros(macros), UnorderedElementsAre("F", "S", "T"));
  EXPECT_EQ(suffixed(std::string(macros) + "F(0.5) * S((1.5)) + C(2.5, F(3.5)) + T + 4.5"),
            std::string(macros) + "F(0.5) * S((1.5)) + C(2.5f, F(3.5)) + T + 4.5f");
}

TEST(Literals, columns_are_those_of_the_author) {
  const std::string text = "int a;\n1.0+b*(2.0-c)\nd";
  const SourceText source{.file = "k", .text = text, .suffixes = unsuffixed_literals(text)};
  const std::string generated = "1.0f+b*(2.0f-c)";
  const std::string line = "1.0+b*(2.0-c)";
  for (const char c : {'1', '+', 'b', '(', '2', '-', 'c', ')'}) {
    EXPECT_EQ(author_column(source, 2, static_cast<uint32_t>(generated.find(c) + 1)),
              line.find(c) + 1)
        << c;
  }
  EXPECT_EQ(author_column(source, 1, 5), 5U);
  EXPECT_EQ(author_column(source, 3, 1), 1U);
  EXPECT_EQ(author_column(source, 2, 0), 0U);
  EXPECT_EQ(author_column(source, 99, 7), 7U);
  EXPECT_EQ(author_column({.file = "k", .text = text}, 2, 6), 6U);
}

}  // namespace
}  // namespace holdfast::kernel
