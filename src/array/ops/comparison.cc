#include "holdfast/array/ops/elementwise.h"
#include "holdfast/ops.h"

namespace holdfast {

using array::binary;
using array::ResultType;
using array::unary;

Array equal(const Term& a, const Term& b, const On& on) {
  return binary({"equal", "a == b", ResultType::boolean}, a, b, on);
}
Array not_equal(const Term& a, const Term& b, const On& on) {
  return binary({"not_equal", "a != b", ResultType::boolean}, a, b, on);
}
Array less(const Term& a, const Term& b, const On& on) {
  return binary({"less", "a < b", ResultType::boolean}, a, b, on);
}
Array less_equal(const Term& a, const Term& b, const On& on) {
  return binary({"less_equal", "a <= b", ResultType::boolean}, a, b, on);
}
Array greater(const Term& a, const Term& b, const On& on) {
  return binary({"greater", "a > b", ResultType::boolean}, a, b, on);
}
Array greater_equal(const Term& a, const Term& b, const On& on) {
  return binary({"greater_equal", "a >= b", ResultType::boolean}, a, b, on);
}

// What is not zero is true, NaN too.
Array logical_and(const Term& a, const Term& b, const On& on) {
  return binary({"logical_and", "a != C(0) && b != C(0)", ResultType::boolean}, a, b, on);
}
Array logical_or(const Term& a, const Term& b, const On& on) {
  return binary({"logical_or", "a != C(0) || b != C(0)", ResultType::boolean}, a, b, on);
}
Array logical_xor(const Term& a, const Term& b, const On& on) {
  return binary({"logical_xor", "(a != C(0)) != (b != C(0))", ResultType::boolean}, a, b, on);
}
Array logical_not(const Array& a, const On& on) {
  return unary({"logical_not", "a == C(0)", ResultType::boolean}, a, on);
}
Array isnan(const Array& a, const On& on) {
  return unary({"isnan", "a != a", ResultType::boolean}, a, on);
}
// The difference of a number and itself is zero; of infinities and NaN it is NaN.
Array isfinite(const Array& a, const On& on) {
  return unary({"isfinite", "a - a == C(0)", ResultType::boolean}, a, on);
}
Array isinf(const Array& a, const On& on) {
  return unary({"isinf", "a == a && a - a != C(0)", ResultType::boolean}, a, on);
}

}  // namespace holdfast
