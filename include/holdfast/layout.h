#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/shape.h"

#pragma GCC visibility push(default)

namespace holdfast {

// A part of an axis, as in Python: negative positions count from the end, positions beyond an end
// mean the end. A step of zero is a UsageError.
struct Slice {
  std::optional<int64_t> start{};
  std::optional<int64_t> stop{};
  int64_t step = 1;
};

// Where the elements of an array lie in its memory, counted in elements. Pure data. An array's
// layout has no negative stride on an axis of length one, and is row_contiguous(shape) if there are
// no elements. A row-contiguous array therefore never has negative strides.
struct Layout {
  Shape shape{};
  Strides strides{};
  int64_t offset = 0;  // of the element (0, ..., 0)

  static Layout row_contiguous(const Shape& shape);
  // Whether the elements lie one after the other in row-major order. Axes of length one may have
  // any stride; an array without elements is contiguous.
  bool is_row_contiguous() const noexcept;
  bool has_negative_strides() const noexcept;
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace holdfast

#pragma GCC visibility pop
