#include <algorithm>

#include "holdfast/array/compile/trace.h"
#include "holdfast/array/layouts.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

// In two passes, in what floats are computed in: the mean first, so that nothing is lost where it
// is large beside the distances from it.
Array squared_distances(const Array& a, const Reduce& how, double ddof, const char* what,
                        const On& on) {
  array::refuse_lengths(a, what);
  int64_t count = 1;
  for (const int64_t axis : array::normal_axes(how.axes, a.ndim(), what)) {
    count *= a.shape()[static_cast<size_t>(axis)];
  }
  const Dtype work = a.dtype() == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  const Array wide = astype(a, work, on);
  const Array middle = mean(wide, {.axes = how.axes, .keep_dims = true}, on);
  const Array total = sum(square(subtract(wide, middle, on), on), how, on);
  return divide(total, std::max(static_cast<double>(count) - ddof, 0.0), on);
}

}  // namespace

Array var(const Array& a, const Reduce& how, double ddof, const On& on) {
  return astype(squared_distances(a, how, ddof, "var", on), floating(a.dtype()), on);
}

Array std(const Array& a, const Reduce& how, double ddof, const On& on) {
  return astype(sqrt(squared_distances(a, how, ddof, "std", on), on), floating(a.dtype()), on);
}

}  // namespace holdfast
