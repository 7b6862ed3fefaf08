#pragma once

#include <cstdint>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Sorting along one axis, for all dtypes. NaN counts as larger than every number. Sorts are stable:
// equal elements keep their order, also where it is descending. -0.0 and 0.0 are equal to argsort
// and searchsorted; sort and topk put -0.0 before 0.0, and NaN loses its sign there.
Array sort(const Array& a, int64_t axis = -1, bool descending = false, const On& on = {});
// The positions, as uint32, that take_along_axis gives the sorted array for.
Array argsort(const Array& a, int64_t axis = -1, bool descending = false, const On& on = {});
// The k largest elements, the largest first. UsageError where the axis has fewer.
Array topk(const Array& a, int64_t k, int64_t axis = -1, const On& on = {});

// Where to insert values so that `sorted`, an ascending array with one axis, stays sorted: the
// first such position or (Side::right) the last, as uint32. Both are converted to the promoted
// dtype.
enum class Side : uint8_t { left, right };
Array searchsorted(const Array& sorted, const Array& values, Side side = Side::left,
                   const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
