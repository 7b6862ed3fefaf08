#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/shape.h"

namespace holdfast::numeric {

// For each row along the axis: where its elements stand among all elements in row-major order. Rows
// are in row-major order of the other axes.
inline std::vector<std::vector<size_t>> rows_along(const Shape& shape, int64_t axis) {
  const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  size_t inner = 1;
  for (size_t i = at + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  const auto length = static_cast<size_t>(shape[at]);
  const auto size = static_cast<size_t>(elements(shape));
  std::vector<std::vector<size_t>> rows;
  if (size == 0) return rows;
  for (size_t row = 0; row < size / length; ++row) {
    std::vector<size_t> places;
    for (size_t k = 0; k < length; ++k) {
      places.push_back((row / inner * length + k) * inner + row % inner);
    }
    rows.push_back(std::move(places));
  }
  return rows;
}

}  // namespace holdfast::numeric
