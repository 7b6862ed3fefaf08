#pragma once

#include <fmt/format.h>

#include "holdfast/array.h"
#include "holdfast/base/error.h"
#include "holdfast/operation.h"

// Integer positions along an axis, as take() and scatter() have them.
namespace holdfast::array {

inline void check_positions(const Array& indices, const char* what) {
  if (is_integer(indices.dtype())) return;
  throw UsageError(
      fmt::format("{}: positions of the dtype {}; convert them to integers with astype first", what,
                  to_string(indices.dtype())));
}

// The array's shape with that of the positions in the place of the axis.
inline Shape shape_at_positions(const Shape& shape, size_t axis, const Shape& positions) {
  Shape result;
  for (size_t i = 0; i < axis; ++i) result.push_back(shape[i]);
  for (const int64_t length : positions) result.push_back(length);
  for (size_t i = axis + 1; i < shape.size(); ++i) result.push_back(shape[i]);
  return result;
}

// Of one position for each element.
inline void check_along(const Shape& shape, const Shape& positions, size_t axis, const char* what) {
  Shape wanted = shape;
  if (positions.size() == shape.size()) wanted[axis] = positions[axis];
  if (positions == wanted) return;
  throw UsageError(fmt::format(
      "{}: positions of shape {} for an array of shape {}; they may differ along axis {} alone",
      what, to_string(positions), to_string(shape), axis));
}

// The first lines of a kernel that has `given`, a position of the integer type I, along an axis of
// `n`: `at` is it from the start, where `inside`.
inline constexpr const char* kPositionText = R"(
long at = long(given);
bool inside = at < n;
if (I(-1) < I(0)) {
  at = at < 0 ? at + n : at;
  inside = inside && at >= 0;
} else {
  inside = ulong(given) < ulong(n);
}
)";

}  // namespace holdfast::array
