#include "holdfast/layout.h"

#include <algorithm>

namespace holdfast {

Layout Layout::row_contiguous(const Shape& shape) {
  Layout layout{shape, Strides::filled(shape.size(), 1), 0};
  const bool none = elements(shape) == 0;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    layout.strides[i] = stride;
    // Without elements the product of the other lengths may be anything, and matters to nobody.
    const int64_t length = std::max<int64_t>(shape[i], 1);
    if (!none || stride <= kMaxLength) stride *= length;
  }
  return layout;
}

bool Layout::is_row_contiguous() const noexcept {
  if (std::ranges::any_of(shape, [](int64_t length) { return length == 0; })) return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool Layout::has_negative_strides() const noexcept {
  return std::ranges::any_of(strides, [](int64_t stride) { return stride < 0; });
}

}  // namespace holdfast
