#include "holdfast/kernel/generate/pragmas.h"

#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

constexpr FloatPragmas kNothing{};
constexpr FloatPragmas kNoContraction{.no_contraction = true};
constexpr FloatPragmas kSafe{.no_contraction = true, .safe_math = true};

TEST(FloatPragmas, each_form_is_known) {
  for (const char* text :
       {"#pragma clang fp contract(off)", "#pragma METAL fp contract(off)",
        "#pragma STDC FP_CONTRACT OFF", "  #  pragma STDC FP_CONTRACT OFF // as on the GPU",
        "#pragma clang fp reassociate(on) contract(off)", "#pragma clang fp \\\n contract(off)",
        "float f() {\n#pragma clang fp contract ( off )\nreturn 1; }",
        "#define A 1\n#pragma clang fp contract(off)\n#define B 1",
        "_Pragma(\"METAL fp contract(off)\")", "#define EXACT _Pragma(\"STDC FP_CONTRACT OFF\")",
        "_Pragma(R\"(clang fp contract(off))\") int i;"}) {
    EXPECT_EQ(float_pragmas_in(text), kNoContraction) << text;
  }
  EXPECT_EQ(float_pragmas_in("#pragma METAL fp math_mode(safe)"), kSafe);
  EXPECT_EQ(float_pragmas_in("#pragma METAL fp contract(fast)\n#pragma METAL fp math_mode(safe)"),
            kSafe);
}

TEST(FloatPragmas, what_permits_or_says_something_else_forbids_nothing) {
  for (const char* text :
       {"", "float pragma = 1;", "// #pragma clang fp contract(off)",
        "#pragma clang fp contract(on)", "#pragma clang fp contract(fast)",
        "#pragma STDC FP_CONTRACT ON", "#pragma STDC FENV_ACCESS OFF",
        "#pragma METAL fp math_mode(fast)", "#pragma clang fp math_mode(safe)",
        "#pragma GCC fp contract(off)", "#pragma clang loop unroll(off)",
        "#pragma clang fp\ncontract(off);", "#pragma",
        "const char* s = \"#pragma clang fp contract(off)\";", "_Pragma(", "_Pragma()",
        "#define pragma clang fp contract(off)", "#pragma unroll\n#if contract\n"}) {
    EXPECT_EQ(float_pragmas_in(text), kNothing) << text;
  }
}

}  // namespace
}  // namespace holdfast::kernel
