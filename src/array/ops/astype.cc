#include "holdfast/array/ops/elementwise.h"
#include "holdfast/ops.h"

namespace holdfast {

Array astype(const Array& a, Dtype dtype, const On& on) {
  return a.dtype() == dtype ? a : array::conversion({"astype", "a"}, a, dtype, on);
}

}  // namespace holdfast
