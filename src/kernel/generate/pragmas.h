#pragma once

#include <string_view>

namespace holdfast::kernel {

// What the pragmas of a text forbid of floating-point arithmetic. Compilers know some of them, none
// knows all; so they are read here and become options of the compiler, for the whole text.
struct FloatPragmas {
  // Products and sums do not become one operation: #pragma clang fp contract(off), #pragma METAL fp
  // contract(off), #pragma STDC FP_CONTRACT OFF, each also as _Pragma("...").
  bool no_contraction = false;
  // Nothing changes a result; implies the above: #pragma METAL fp math_mode(safe).
  bool safe_math = false;

  friend bool operator==(const FloatPragmas&, const FloatPragmas&) = default;
};
// Also those that a condition of the preprocessor leaves out.
FloatPragmas float_pragmas_in(std::string_view text);

}  // namespace holdfast::kernel
