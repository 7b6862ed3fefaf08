#include "holdfast/array/ops/elementwise.h"
#include "holdfast/ops.h"

namespace holdfast {

Array where(const Array& condition, const Term& a, const Term& b, const On& on) {
  return array::choice({"where", "a ? b : c"}, condition, a, b, on);
}

// Where the bounds cross: the upper one. NaN stays, also a bound's.
Array clip(const Array& a, const Term& low, const Term& high, const On& on) {
  return array::ternary({"clip", "smaller(larger(a, b), c)"}, a, low, high, on);
}

}  // namespace holdfast
