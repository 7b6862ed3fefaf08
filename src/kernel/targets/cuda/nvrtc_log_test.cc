#include "holdfast/kernel/targets/cuda/nvrtc_log.h"

#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

const std::vector<SourceText> kSources = {
    {.file = "scale.header", .text = "float twice(float v) {\n  return v.x;\n}\n"},
    {.file = "my (odd) scale.metal", .text = "uint i = 0;\n  y[i] = b[i];\nthreadgroup int z;\n"}};

TEST(NvrtcLog, an_error_has_file_line_column_words_and_the_authors_line) {
  const auto found = read_nvrtc_log(
      "my (odd) scale.metal(2): error: identifier \"b\" is undefined\n"
      "    y[i] = b[i];\n"
      "           ^\n"
      "\n"
      "1 error detected in the compilation of \"holdfast\".\n",
      kSources);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].file, "my (odd) scale.metal");
  EXPECT_EQ(found[0].line, 2U);
  EXPECT_EQ(found[0].column, 10U);
  EXPECT_EQ(found[0].message, "identifier \"b\" is undefined");
  EXPECT_EQ(found[0].source_line, "  y[i] = b[i];");
}

TEST(NvrtcLog, the_line_is_the_authors_and_not_the_generated_one) {
  const auto found = read_nvrtc_log(
      "my (odd) scale.metal(3): error: bad\n"
      "  hf_tg_local int z;\n"
      "                  ^\n",
      kSources);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].source_line, "threadgroup int z;");
  EXPECT_EQ(found[0].column, 17U);
}

TEST(NvrtcLog, words_on_several_lines_are_joined) {
  const auto found = read_nvrtc_log(
      "scale.header(2): error: no instance matches the argument list\n"
      "            argument types are: (S)\n"
      "    return v.x;\n"
      "           ^\n"
      "holdfast(12): note #3326-D: a candidate does not match\n"
      "  template <class T> T four(T v);\n"
      "                       ^\n",
      kSources);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].message, "no instance matches the argument list; argument types are: (S)");
  EXPECT_EQ(found[0].column, 10U);
}

TEST(NvrtcLog, an_error_inside_our_templates_stands_at_the_authors_line) {
  const auto found = read_nvrtc_log(
      "holdfast(40): error: expression must have class type\n"
      "  template <class T> T f(T v) { return v.foo; }\n"
      "                                       ^\n"
      "          detected during:\n"
      "            instantiation of \"T f(T) [with T=float]\" at line 41\n"
      "            instantiation of \"T g(T) [with T=float]\" at line 1 of my (odd) scale.metal\n",
      kSources);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].file, "my (odd) scale.metal");
  EXPECT_EQ(found[0].line, 1U);
  EXPECT_EQ(found[0].column, 0U);
  EXPECT_EQ(found[0].source_line, "uint i = 0;");
}

TEST(NvrtcLog, warnings_are_no_errors_and_a_line_has_one_error) {
  const auto found = read_nvrtc_log(
      "scale.header(1): warning #177-D: unused\n"
      "  float twice(float v) {\n"
      "        ^\n"
      "\n"
      "scale.header(2): error: first\n"
      "    return v.x;\n"
      "           ^\n"
      "\n"
      "scale.header(2): error: second\n"
      "    return v.x;\n"
      "             ^\n"
      "\n"
      "scale.header(3): catastrophic error: #error directive: third\n"
      "  }\n"
      "  ^\n",
      kSources);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].message, "first");
  EXPECT_EQ(found[1].message, "#error directive: third");
}

TEST(NvrtcLog, what_the_assembler_says_has_no_place) {
  const auto found = read_nvrtc_log(
      "ptxas error   : Entry function 'k' uses too much shared data (0x400000 bytes)\n", kSources);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].line, 0U);
  EXPECT_EQ(found[0].message, "Entry function 'k' uses too much shared data (0x400000 bytes)");
}

TEST(NvrtcLog, any_bytes_are_read_without_harm) {
  for (const char* log : {"", "\n\n", "(", "): error", "(): error: x", "f(99999999999): error: x",
                          "f(1): error: ", "scale.header(7): error: past the end\n  ^\n",
                          "scale.header(1): error: x\n^\n"}) {
    for (const Diagnostic& found : read_nvrtc_log(log, kSources)) {
      EXPECT_LE(found.column, found.source_line.size() + 1);
    }
  }
}

}  // namespace
}  // namespace holdfast::kernel
