// The integers among the results wrap around. Of bool: a sum is the or, a product the and, a
// difference the xor of its operands.

#include "holdfast/array/ops/elementwise.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using array::binary;
using array::ResultType;
using array::unary;

// By zero: floats as the division says, integers zero. The quotient of the smallest integer and -1
// wraps around. Floats go through the remainder, whose sum with the rest is exact, since a / b may
// round up to an integer that is too large.
constexpr std::string_view kFloorDivided = R"(
template <class T> T floor_divided(T a, T b) {
  if constexpr (is_floating<T>) {
    if (b == T(0)) return a / b;
    T rest = metal::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
    if (quotient == T(0)) return metal::copysign(T(0), a / b);
    T whole = metal::floor(quotient);
    return quotient - whole > T(0.5f) ? whole + T(1) : whole;
  } else {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return T(-U(a));
    T quotient = T(a / b);
    return a % b != 0 && (a < T(0)) != (b < T(0)) ? T(quotient - 1) : quotient;
  }
}
)";

// With the sign of b.
constexpr std::string_view kRemainder = R"(
template <class T> T remainder_of(T a, T b) {
  if constexpr (is_floating<T>) {
    T rest = metal::fmod(a, b);
    if (rest == T(0)) return metal::copysign(T(0), b);
    return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
  } else {
    if (b == T(0) || (T(-1) < T(0) && b == T(-1))) return T(0);
    T rest = T(a % b);
    return rest != 0 && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
  }
}
)";

// Integers to a negative power are zero, but for 1 and -1.
constexpr std::string_view kPower = R"(
template <class T> T power_of(T a, T b) {
  if constexpr (is_floating<T>) {
    return metal::pow(a, b);
  } else {
    if (b < T(0)) {
      if (a == T(1)) return T(1);
      return a != T(-1) ? T(0) : (b & 1) != 0 ? T(-1) : T(1);
    }
    using Word = typename Wrapping<T>::type;
    Word result = 1;
    Word base = Word(a);
    for (Word rest = Word(b); rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) result *= base;
      base *= base;
    }
    return T(result);
  }
}
)";

// The smallest integer stays what it is: its absolute value wraps around.
constexpr std::string_view kAbsolute = R"(
template <class T> T absolute(T a) {
  if constexpr (is_floating<T>) {
    return metal::fabs(a);
  } else {
    return a < T(0) ? T(-U(a)) : a;
  }
}
)";

}  // namespace

Array add(const Term& a, const Term& b, const On& on) {
  return binary({"add", "C(U(a) + U(b))"}, a, b, on);
}
Array subtract(const Term& a, const Term& b, const On& on) {
  return binary({"subtract", "C(U(a) - U(b))"}, a, b, on);
}
Array multiply(const Term& a, const Term& b, const On& on) {
  return binary({"multiply", "C(U(a) * U(b))"}, a, b, on);
}
Array divide(const Term& a, const Term& b, const On& on) {
  return binary({"divide", "a / b", ResultType::floating}, a, b, on);
}
Array floor_divide(const Term& a, const Term& b, const On& on) {
  return binary({.name = "floor_divide", .text = "floor_divided(a, b)", .helpers = kFloorDivided},
                a, b, on);
}
Array remainder(const Term& a, const Term& b, const On& on) {
  return binary({.name = "remainder", .text = "remainder_of(a, b)", .helpers = kRemainder}, a, b,
                on);
}
Array power(const Term& a, const Term& b, const On& on) {
  return binary({.name = "power", .text = "power_of(a, b)", .helpers = kPower}, a, b, on);
}
Array maximum(const Term& a, const Term& b, const On& on) {
  return binary({"maximum", "larger(a, b)"}, a, b, on);
}
Array minimum(const Term& a, const Term& b, const On& on) {
  return binary({"minimum", "smaller(a, b)"}, a, b, on);
}
Array negative(const Array& a, const On& on) { return unary({"negative", "C(-U(a))"}, a, on); }
Array abs(const Array& a, const On& on) {
  return unary({.name = "abs", .text = "absolute(a)", .helpers = kAbsolute}, a, on);
}
Array sign(const Array& a, const On& on) {
  return unary({"sign", "a > C(0) ? C(1) : a < C(0) ? C(-1) : a"}, a, on);
}
Array square(const Array& a, const On& on) { return unary({"square", "C(U(a) * U(a))"}, a, on); }

}  // namespace holdfast
