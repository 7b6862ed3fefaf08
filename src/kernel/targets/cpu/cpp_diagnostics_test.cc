#include "holdfast/kernel/targets/cpu/cpp_diagnostics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<SourceText>& sources() {
  static const std::vector<SourceText> texts{
      {"k.header", "float helper(float v) {\n  return v * undeclared;\n}\n"},
      {"k", "uint i = thread_position_in_grid.x;\ny[i] = foo(x[i]);\ny[i] += helper(1);\n"}};
  return texts;
}

// Each as "file:line:column message | line".
std::vector<std::string> read(std::string_view log) {
  std::vector<std::string> result;
  for (const Diagnostic& d : read_cpp_log(log, sources())) {
    result.push_back(d.file + ":" + std::to_string(d.line) + ":" + std::to_string(d.column) + " " +
                     d.message + " | " + d.source_line);
  }
  return result;
}

TEST(CppDiagnostics, errors_of_both_compilers_stand_at_the_authors_line) {
  // g++
  EXPECT_THAT(read("k: In function 'void {anonymous}::hf_body(float*)':\n"
                   "k:2:8: error: 'foo' was not declared in this scope\n"),
              ElementsAre("k:2:8 'foo' was not declared in this scope | y[i] = foo(x[i]);"));
  // clang++
  EXPECT_THAT(read("k.header:2:14: error: use of undeclared identifier 'undeclared'\n"
                   "1 error generated.\n"),
              ElementsAre("k.header:2:14 use of undeclared identifier 'undeclared' |   return v * "
                          "undeclared;"));
}

TEST(CppDiagnostics, a_use_of_a_template_that_fails_inside_it_stands_at_the_use) {
  EXPECT_THAT(read("kernel.cc: In instantiation of 'T simd_sum(T) [with T = thing]':\n"
                   "k:3:16:   required from here\n"
                   "kernel.cc:90:12: error: no match for 'operator+'\n"),
              ElementsAre("k:3:16 no match for 'operator+' | y[i] += helper(1);"));
  EXPECT_THAT(read("kernel.cc:90:12: error: invalid operands to binary expression\n"
                   "k:3:16: note: in instantiation of function template specialization "
                   "'simd_sum<thing>' requested here\n"),
              ElementsAre("k:3:16 invalid operands to binary expression | y[i] += helper(1);"));
}

TEST(CppDiagnostics, a_macro_that_fails_inside_it_stands_where_it_is_used) {
  EXPECT_THAT(read("kernel.cc:12:40: error: expected ')'\n"
                   "k:2:1: note: in expansion of macro 'assert'\n"),
              ElementsAre("k:2:1 expected ')' | y[i] = foo(x[i]);"));
}

TEST(CppDiagnostics, a_bracket_without_a_partner_stands_where_it_is) {
  EXPECT_THAT(read("holdfast:9:2: error: expected '}' at end of input\n"
                   "k:2:12: note: to match this '{'\n"),
              ElementsAre("k:2:12 expected '}' at end of input | y[i] = foo(x[i]);"));
  // Where the compiler is lost in generated text.
  const auto found_in = [](std::string text) {
    const std::vector<SourceText> source{{"k", std::move(text)}};
    const auto found = read_cpp_log("holdfast:9:2: error: what is this '{'\n", source);
    return found.size() == 1
               ? fmt::format("{}:{} {}", found[0].line, found[0].column, found[0].message)
               : "not one";
  };
  EXPECT_EQ(found_in("y[0] = 1;\nif (x[0] > 0) {"), "2:15 this '{' is never closed");
  EXPECT_EQ(found_in("{ y[0] = 1; }}"), "1:14 this '}' closes nothing");
  EXPECT_EQ(found_in("y[0] = f(1;\n}"), "2:1 this '}' closes nothing");
  EXPECT_EQ(found_in("y[0] = '{'; // }"), "0:0 what is this '{'");
  EXPECT_EQ(found_in("#if 0\n{\n#endif"), "0:0 what is this '{'");
}

TEST(CppDiagnostics, notes_about_the_authors_lines_follow_and_others_are_dropped) {
  EXPECT_THAT(read("k:3:9: error: too few arguments to function 'float helper(float)'\n"
                   "k.header:1:7: note: declared here\n"
                   "kernel.cc:5:7: note: something of ours\n"),
              ElementsAre("k:3:9 too few arguments to function 'float helper(float)' | y[i] += "
                          "helper(1);",
                          "k.header:1:7 note: declared here | float helper(float v) {"));
}

TEST(CppDiagnostics, of_several_errors_in_a_line_the_first_is_kept) {
  EXPECT_THAT(read("k:2:8: error: first\nk:2:9: error: second\nk:3:1: error: third\n"),
              ElementsAre("k:2:8 first | y[i] = foo(x[i]);", "k:3:1 third | y[i] += helper(1);"));
}

TEST(CppDiagnostics, what_the_linker_misses_is_named_without_its_files) {
  EXPECT_THAT(read("/usr/bin/ld: ./ccX7a.o: in function `hf_k':\n"
                   "kernel.cc:(.text+0x12): undefined reference to `missing(float)'\n"
                   "collect2: error: ld returned 1 exit status\n"),
              ElementsAre(":0:0 undefined reference to 'missing(float)' | "));
}

TEST(CppDiagnostics, errors_without_a_place_show_only_where_there_are_no_others) {
  EXPECT_THAT(read("kernel.cc:9:1: error: elsewhere\n"), ElementsAre(":0:0 elsewhere | "));
  EXPECT_THAT(read("kernel.cc:9:1: error: elsewhere\nk:2:8: error: here\n"),
              ElementsAre("k:2:8 here | y[i] = foo(x[i]);"));
  EXPECT_THAT(read("k:2: error: unterminated #if\n"),
              ElementsAre("k:2:0 unterminated #if | y[i] = foo(x[i]);"));
}

TEST(CppDiagnostics, variables_that_do_not_fit_are_told_in_words_of_the_author) {
  for (const char* said :
       {"holdfast:24:65: error: the frame size of 280000 bytes is larger than 200000 bytes "
        "[-Werror=frame-larger-than=]\n",
        "holdfast:24:7: error: stack frame size (280000) exceeds limit (200000) in "
        "'f(void*, unsigned int)' [-Werror,-Wframe-larger-than]\n"}) {
    EXPECT_THAT(read(said),
                ElementsAre(AllOf(HasSubstr("take 280000 bytes"), HasSubstr("have 200000 each"),
                                  HasSubstr("threadgroup memory"))));
  }
}

TEST(CppDiagnostics, other_words_are_no_errors) {
  EXPECT_THAT(read(""), IsEmpty());
  EXPECT_THAT(read("k:2:8: warning: error: is a word\n"), IsEmpty());
  EXPECT_THAT(read("k:99999999999999:8: nonsense\nk:\nk::::\n"), IsEmpty());
}

TEST(CppDiagnostics, no_log_ends_the_process_and_all_of_it_can_be_printed) {
  const std::string_view log =
      "k:2:8: error: 'foo' was not declared\nk:3:16:   required from here\nkernel.cc:1:2: error: "
      "a\n"
      "k.header:1:7: note: declared here\nx: undefined reference to `y'\n";
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  for (int i = 0; i < 3000; ++i) {
    std::string damaged(log);
    for (int j = 0; j < 5; ++j) damaged[random() % damaged.size()] = static_cast<char>(random());
    const std::string text =
        describe_errors("k", "", read_cpp_log(damaged.substr(random() % 40), sources()));
    EXPECT_TRUE(
        std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  }
}

TEST(CppDiagnostics, what_the_assembler_says_is_not_lost) {
  const auto diagnostics = read_cpp_log(
      "{standard input}: Assembler messages:\n"
      "{standard input}:57: Error: unsupported masking for `vmovsh'\n"
      "{standard input}:63: Error: unsupported masking for `vmovsh'\n"
      "/tmp/cc1.s:69: Error: no such instruction: `nonsense'\n",
      std::vector<SourceText>{{"k.metal", "y[0] = 1;"}});
  ASSERT_EQ(diagnostics.size(), 2U);
  EXPECT_THAT(diagnostics[0].message,
              AllOf(HasSubstr("assembler"), HasSubstr("unsupported masking for 'vmovsh'"),
                    HasSubstr("CXX")));
  EXPECT_THAT(diagnostics[1].message, HasSubstr("no such instruction: 'nonsense'"));
  EXPECT_EQ(diagnostics[0].line, 0U);
}

}  // namespace
}  // namespace holdfast::kernel
