// What helps to find mistakes in a body.

#include "holdfast/kernel/language_rig_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using LanguageDebug = LanguageTest;

TEST_F(LanguageDebug, an_index_out_of_bounds_names_line_buffer_index_and_size) {
  if (world.is_left_to_checked_kernels()) GTEST_SKIP() << world.skipped();
  const auto fails = [&](std::string body) {
    return failure_of({.body = std::move(body), .x = iota(8), .outputs = 4, .bounds = true});
  };
  EXPECT_THAT(fails("y[0] = 1;\ny[1] = x[8];"),
              AllOf(HasSubstr("'body'"), HasSubstr("body:2:"), HasSubstr("index 8"),
                    HasSubstr("'x'"), HasSubstr("8 element")));
  EXPECT_THAT(
      fails("\n\nint i = -1;\ny[i] = 0;"),
      AllOf(HasSubstr("body:4:"), HasSubstr("index -1"), HasSubstr("'y'"), HasSubstr("4 element")));
  EXPECT_THAT(fails("auto p = x + 6;\ny[0] = p[1];\n"
                    "y[1] = p[2];"),
              AllOf(HasSubstr("body:3:"), HasSubstr("index 8"), HasSubstr("'x'")));
  EXPECT_THAT(fails("auto p = x;\n\np += 9;\n\ny[0] = *p;"),
              AllOf(HasSubstr("body:3:"), HasSubstr("index 9"), HasSubstr("'x'")));
  EXPECT_THAT(fails("\nconst device float* p = x + 9;"),
              AllOf(HasSubstr("body:2:"), HasSubstr("index 9"), HasSubstr("'x'")));
  EXPECT_THAT(fails("y[0] = x[ulong(-1)];"), HasSubstr("index -1"));
  EXPECT_THAT(fails("auto u = reinterpret_cast<const device uint*>(x + 4);\ny[0] = x[8] + u[0];"),
              AllOf(HasSubstr("body:2:"), HasSubstr("index 8")));
  EXPECT_EQ(fails("auto e = x[0] > 3 ? x : y;\nfloat g = 1;\n"
                  "for (auto p = x + 1; p <= x + 7 && p != y; p++) g += *p;\n"
                  "y[0] = e[0] + g + reinterpret_cast<thread uint&>(g) + (x < x + 1) + (y >= e);"),
            "nothing failed");
  EXPECT_EQ(fails("for (uint i = 0; i < 4; ++i) y[i] = x[7 - i] + *(x + 1);"), "nothing failed");
}

TEST_F(LanguageDebug, an_assertion_names_its_line_and_words) {
  if (world.is_left_to_checked_kernels()) GTEST_SKIP() << world.skipped();
  EXPECT_THAT(failure_of({.body = "y[0] = 1;\nassert(x[0] > 0 && \"positive\");", .x = {0}}),
              AllOf(HasSubstr("body:2:"), HasSubstr("x[0] > 0")));
  EXPECT_THAT(run({.body = "assert(x[0] == 0); y[0] = 1;"}), ElementsAre(1));
}

TEST_F(LanguageDebug, printf_prints) {
  if (testing::family_of_bodies() == testing::Family::vulkan) {
    EXPECT_THAT(failure_of({.body = "float a = 1;\nprintf(\"%f\", a);"}),
                AllOf(HasSubstr("body:2:1"), HasSubstr("calls 'printf'")));
    return;
  }
  ::testing::internal::CaptureStdout();
  run({.body = "printf(\"%d of %.1f\\n\", int(thread_position_in_grid.x), x[0]);",
       .x = {2.5F},
       .grid = {2, 1, 1}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "0 of 2.5\n1 of 2.5\n");
}

TEST_F(LanguageDebug, what_does_not_compile_is_shown_at_the_authors_line) {
  const std::string message = failure_of({.body = "float a = 1;\n  y[0] = a + undeclared;"});
  EXPECT_THAT(message, AllOf(HasSubstr("'body'"), HasSubstr("undeclared"), HasSubstr("body:2:14"),
                             HasSubstr("  y[0] = a + undeclared;")));
  EXPECT_THAT(failure_of({.body = "y[0] = f();", .header = "\nint f() { return nothing; }"}),
              AllOf(HasSubstr("body.header:2:"), HasSubstr("nothing")));
}

}  // namespace
}  // namespace holdfast::kernel
