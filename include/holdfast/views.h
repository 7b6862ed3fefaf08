#pragma once

#include <initializer_list>
#include <span>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Views show the same memory and compute nothing. UsageError says what does not fit.

// Missing slices take the whole axis: slice(x, {{.start = 1}, {.step = -1}}).
Array slice(const Array& array, std::span<const Slice> slices);
Array slice(const Array& array, std::initializer_list<Slice> slices);
// One position of an axis, which goes away.
Array index(const Array& array, int64_t at, int64_t axis = 0);
// Empty axes: reversed.
Array transpose(const Array& array, std::initializer_list<int64_t> axes = {});
Array transpose(const Array& array, std::span<const int64_t> axes);
Array swap_axes(const Array& array, int64_t a, int64_t b);
Array broadcast_to(const Array& array, const Shape& shape);
// Empty axes: all of length one.
Array squeeze(const Array& array, std::initializer_list<int64_t> axes = {});
// Axes count in the result.
Array expand_dims(const Array& array, std::initializer_list<int64_t> axes);
// The memory of the array's result through any layout inside it.
Array as_strided(const Array& array, const Shape& shape, const Strides& strides,
                 int64_t offset = 0);
// A view where one has that order of elements, else a copy. One length may be -1.
Array reshape(const Array& array, const Shape& shape, const On& on = {});
Array flatten(const Array& array, const On& on = {});

// Row-contiguous elements: the array itself where it is that, else a copy.
Array contiguous(const Array& array, const On& on = {});
// A copy in memory of its own.
Array copy(const Array& array, const On& on = {});

// The array with the slice's elements replaced by `update`, which is broadcast and converted to the
// array's dtype. In the array's own memory where nobody else can see it once this runs (drop the
// array, or move it in here), in a copy otherwise.
Array slice_update(Array array, const Array& update, std::span<const Slice> slices,
                   const On& on = {});
Array slice_update(Array array, const Array& update, std::initializer_list<Slice> slices,
                   const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
