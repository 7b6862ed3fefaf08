#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Views show the same memory and compute nothing. UsageError says what does not fit.

// Missing slices take the whole axis: slice(x, {{.start = 1}, {.step = -1}}).
Array slice(const Array& array, std::span<const Slice> slices);
Array slice(const Array& array, std::initializer_list<Slice> slices);
// One position along an axis; the result lacks that axis.
Array index(const Array& array, int64_t at, int64_t axis = 0);
// Without axes, reverses their order.
Array transpose(const Array& array, std::initializer_list<int64_t> axes = {});
Array transpose(const Array& array, std::span<const int64_t> axes);
Array swap_axes(const Array& array, int64_t a, int64_t b);
// Axis source[i] goes to the place destination[i]; the others keep their order.
Array moveaxis(const Array& array, int64_t source, int64_t destination);
Array moveaxis(const Array& array, std::span<const int64_t> source,
               std::span<const int64_t> destination);
// Reverses the order of elements along the axes; along every axis if none are given.
Array flip(const Array& array, std::initializer_list<int64_t> axes = {});
Array flip(const Array& array, std::span<const int64_t> axes);
Array broadcast_to(const Array& array, const Shape& shape);
// Parts of equal length along the axis; their number must divide its length.
std::vector<Array> split(const Array& array, int64_t parts, int64_t axis = 0);
// A part before each position and one after the last, as slices have them: split(x, {2, 5}) gives
// x[:2], x[2:5] and x[5:].
std::vector<Array> split(const Array& array, std::initializer_list<int64_t> positions,
                         int64_t axis = 0);
std::vector<Array> split(const Array& array, std::span<const int64_t> positions, int64_t axis = 0);
// Coordinates of a grid, from one array with one axis (or none) for each of its axes: result i has
// the elements of arrays[i] along its own axis, and the same ones along all others (`sparse`: those
// have length one). Result axes are in the order of the arrays; with Indexing::xy the first two
// change places.
enum class Indexing : uint8_t { xy, ij };
std::vector<Array> meshgrid(std::span<const Array> arrays, Indexing indexing = Indexing::xy,
                            bool sparse = false);
std::vector<Array> meshgrid(std::initializer_list<Array> arrays, Indexing indexing = Indexing::xy,
                            bool sparse = false);
// Without axes, removes every axis of length one.
Array squeeze(const Array& array, std::initializer_list<int64_t> axes = {});
Array squeeze(const Array& array, std::span<const int64_t> axes);
// Axes are positions in the result.
Array expand_dims(const Array& array, std::initializer_list<int64_t> axes);
Array expand_dims(const Array& array, std::span<const int64_t> axes);
// Shows the memory of the array's result through any layout that stays inside it.
Array as_strided(const Array& array, const Shape& shape, const Strides& strides,
                 int64_t offset = 0);
// A view if a layout with that order of elements exists, otherwise a copy. One length may be -1.
Array reshape(const Array& array, const Shape& shape, const On& on = {});
Array flatten(const Array& array, const On& on = {});

// The array itself if it is row-contiguous, otherwise a row-contiguous copy.
Array contiguous(const Array& array, const On& on = {});
// A copy in its own memory.
Array copy(const Array& array, const On& on = {});

// The array with the slice's elements replaced by `update`, which is broadcast and converted to the
// array's dtype. This happens in the array's own memory if nobody else can see it once this runs
// (drop the array, or move it in here), and in a copy otherwise.
Array slice_update(Array array, const Array& update, std::span<const Slice> slices,
                   const On& on = {});
Array slice_update(Array array, const Array& update, std::initializer_list<Slice> slices,
                   const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
