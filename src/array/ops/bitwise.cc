#include <fmt/format.h>

#include "holdfast/array/ops/elementwise.h"
#include "holdfast/base/error.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

// Of bits that integers have, as what they are: a shift of an unsigned C fills with zeros.
constexpr std::string_view kShifted = R"(
constexpr U kBits = U(sizeof(C) * 8);
inline C shifted_left(C a, C b) { return U(b) < kBits ? C(U(a) << U(b)) : C(0); }
inline C shifted_right(C a, C b) {
  return U(b) < kBits ? C(a >> b) : a < C(0) ? C(-1) : C(0);
}
)";

// The dtype of operands is known once the node is built; it is dropped where they have no bits.
Array with_bits(Array result, const char* what, bool takes_bool = true) {
  const Dtype dtype = result.dtype();
  if (is_floating(dtype)) {
    throw UsageError(
        fmt::format("{}: the operands' dtype is {}, and floats have no bits to work on; convert "
                    "them to integers with astype first",
                    what, to_string(dtype)));
  }
  if (dtype == Dtype::bool_ && !takes_bool) {
    throw UsageError(
        fmt::format("{}: bool cannot be shifted; convert it to integers with astype first", what));
  }
  return result;
}

}  // namespace

Array bitwise_and(const Term& a, const Term& b, const On& on) {
  return with_bits(array::binary({"bitwise_and", "C(U(a) & U(b))"}, a, b, on), "bitwise_and");
}
Array bitwise_or(const Term& a, const Term& b, const On& on) {
  return with_bits(array::binary({"bitwise_or", "C(U(a) | U(b))"}, a, b, on), "bitwise_or");
}
Array bitwise_xor(const Term& a, const Term& b, const On& on) {
  return with_bits(array::binary({"bitwise_xor", "C(U(a) ^ U(b))"}, a, b, on), "bitwise_xor");
}
// Of bool: the other one.
Array bitwise_invert(const Array& a, const On& on) {
  if (a.dtype() == Dtype::bool_) return logical_not(a, on);
  return with_bits(array::unary({"bitwise_invert", "C(~U(a))"}, a, on), "bitwise_invert");
}
Array left_shift(const Term& a, const Term& b, const On& on) {
  return with_bits(
      array::binary({.name = "left_shift", .text = "shifted_left(a, b)", .helpers = kShifted}, a, b,
                    on),
      "left_shift", /*takes_bool=*/false);
}
Array right_shift(const Term& a, const Term& b, const On& on) {
  return with_bits(
      array::binary({.name = "right_shift", .text = "shifted_right(a, b)", .helpers = kShifted}, a,
                    b, on),
      "right_shift", /*takes_bool=*/false);
}

}  // namespace holdfast
