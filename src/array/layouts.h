#pragma once

#include <optional>
#include <span>

#include "holdfast/layout.h"

namespace holdfast::array {

// Pure functions of layouts that lie in some memory. They raise UsageError in the words of the
// public functions that call them, and return layouts as arrays have them.

// The first and the last element that a layout reaches; {0, -1} where it has none. UsageError where
// that overflows.
struct Reach {
  int64_t first = 0;
  int64_t last = -1;
  friend bool operator==(const Reach&, const Reach&) = default;
};
Reach reach(const Layout& layout);

// Axes from -rank to rank - 1 become 0 to rank - 1. `what` names the function for messages.
size_t normal_axis(int64_t axis, size_t rank, const char* what);
// All of them, each once, in ascending order; `axes` empty: every axis.
Dims normal_axes(std::span<const int64_t> axes, size_t rank, const char* what);

// Missing slices take the whole axis.
Layout slice(const Layout& layout, std::span<const Slice> slices);
// Of one axis.
Layout slice_along(const Layout& layout, size_t axis, const Slice& part);
// Empty axes: reversed.
Layout transpose(const Layout& layout, std::span<const int64_t> axes);
Layout broadcast_to(const Layout& layout, const Shape& shape);
// Empty axes: every axis of length one.
Layout squeeze(const Layout& layout, std::span<const int64_t> axes);
// Axes count in the result.
Layout expand_dims(const Layout& layout, std::span<const int64_t> axes);
// One length may be -1: what is left.
Shape resolve_reshape(const Shape& from, const Shape& to);
// The layout of the same elements in row-major order under another (resolved) shape; none where
// only a copy has one.
std::optional<Layout> reshape(const Layout& layout, const Shape& shape);
// UsageError where it reaches outside [0, size).
Layout as_strided(const Shape& shape, const Strides& strides, int64_t offset, int64_t size);

// As in NumPy: aligned at the end, lengths of one stretch. UsageError names both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b);

// Joins neighbouring axes that all layouts walk through as one, and drops axes of length one, so
// that kernels have fewer to walk. All have the same shape; it becomes the joined one. At least one
// axis is left.
void collapse(std::span<Layout> layouts);

}  // namespace holdfast::array
