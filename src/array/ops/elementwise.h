#pragma once

#include <string_view>

#include "holdfast/array.h"
#include "holdfast/ops.h"

namespace holdfast::array {

// What all elementwise operations are made of: an expression, compiled into a kernel for each way
// in which its operands can lie, and for each set of dtypes. A new operation is one line:
//
//   Array exp(const Array& a, const On& on) {
//     return unary({"exp", "metal::exp(a)", ResultType::floating}, a, on);
//   }

enum class ResultType : uint8_t {
  promoted,  // what promote() gives for the operands; see Term for numbers
  floating,  // the same; integers and bool become float32 first
  boolean,   // computed as `promoted`; the result is bool
};

// Everything is borrowed for good: string literals.
struct Expression {
  // An identifier of the kernel language; errors and reports show it.
  std::string_view name;
  // In the kernel language, over the operands a, b and c. They have the type C that is computed in:
  // float for floats of up to four bytes, else the promoted dtype itself. Its value is converted to
  // the result's type R. It may also use
  //   U              C; for integers and bool an unsigned type of at least its size, in which
  //                  arithmetic wraps around. So C(U(a) + U(b)) is defined for all numbers, and
  //                  for bool it is their or, the product their and, the difference their xor
  //   is_floating<T>, larger(a, b), smaller(a, b)    the last two: NaN wins
  std::string_view text;
  ResultType result = ResultType::promoted;
  // Functions that the text uses. One that asks is_floating<T> is a template.
  std::string_view helpers{};
};

// Nodes of an operation on operands that are broadcast to one shape, whatever their layouts.
// Numbers are rounded to the promoted dtype, as if they were arrays of it; integers wrap around,
// but comparisons see their real value. The result takes the memory of an operand where nobody else
// can see it.
Array unary(const Expression& expression, const Array& a, const On& on);
Array binary(const Expression& expression, const Term& a, const Term& b, const On& on);
Array ternary(const Expression& expression, const Term& a, const Term& b, const Term& c,
              const On& on);
// In the text a is a bool; it has no part in the result's dtype.
Array choice(const Expression& expression, const Array& a, const Term& b, const Term& c,
             const On& on);
// The result has the given dtype, and C is the operand's own type, two-byte floats included.
Array conversion(const Expression& expression, const Array& a, Dtype result, const On& on);

}  // namespace holdfast::array
