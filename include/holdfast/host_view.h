#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// An array's elements as the host can read them, with the array's own strides: in place if the host
// can reach the device's memory, otherwise a row-contiguous copy. It keeps that memory. Movable;
// any thread may drop it.
class HostView {
 public:
  // Evaluates the array and waits for it.
  explicit HostView(const Array& array, const WaitLimit& limit = {});

  // Of the element (0, ..., 0); never null, also if there are no elements.
  const std::byte* data() const noexcept { return data_; }
  const Shape& shape() const noexcept { return shape_; }
  const Strides& strides() const noexcept { return strides_; }  // in elements
  Dtype dtype() const noexcept { return dtype_; }
  // Whether the elements were copied: the memory is then this view's own.
  bool copied() const noexcept { return copied_; }

 private:
  Dtype dtype_;
  Shape shape_;
  Strides strides_;
  std::optional<ArrayMap> map_;
  std::vector<std::byte> copy_;
  const std::byte* data_ = nullptr;
  bool copied_ = false;
};

}  // namespace holdfast

#pragma GCC visibility pop
