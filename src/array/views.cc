#include "holdfast/views.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"

namespace holdfast {
namespace {

template <typename T>
std::span<const T> span_of(std::initializer_list<T> list) {
  return {list.begin(), list.size()};
}

}  // namespace

Array slice(const Array& array, std::span<const Slice> slices) {
  return array.with_layout(array::slice(array.layout(), slices));
}
Array slice(const Array& array, std::initializer_list<Slice> slices) {
  return slice(array, span_of(slices));
}

Array index(const Array& array, int64_t at, int64_t axis) {
  const size_t i = array::normal_axis(axis, array.ndim(), "index");
  const Layout layout = array.layout();
  const int64_t length = layout.shape[i];
  if (at < -length || at >= length) {
    throw UsageError(
        fmt::format("index: there is no position {} on axis {} of shape {}; {}", at, axis,
                    to_string(layout.shape),
                    length == 0 ? std::string("it has no elements")
                                : fmt::format("positions go from {} to {}", -length, length - 1)));
  }
  std::array<Slice, Dims::kMaxDims> slices{};
  const int64_t first = at < 0 ? at + length : at;
  slices.at(i) = {.start = first, .stop = first + 1};
  const Layout one = array::slice(layout, std::span(slices).first(layout.shape.size()));
  const std::array gone{static_cast<int64_t>(i)};
  return array.with_layout(array::squeeze(one, gone));
}

Array transpose(const Array& array, std::initializer_list<int64_t> axes) {
  return transpose(array, span_of(axes));
}
Array transpose(const Array& array, std::span<const int64_t> axes) {
  return array.with_layout(array::transpose(array.layout(), axes));
}

Array swap_axes(const Array& array, int64_t a, int64_t b) {
  const size_t rank = array.ndim();
  Dims order = Dims::filled(rank, 0);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[array::normal_axis(a, rank, "swap_axes")],
            order[array::normal_axis(b, rank, "swap_axes")]);
  return transpose(array, order.span());
}

Array broadcast_to(const Array& array, const Shape& shape) {
  return array.with_layout(array::broadcast_to(array.layout(), shape));
}

Array squeeze(const Array& array, std::initializer_list<int64_t> axes) {
  return array.with_layout(array::squeeze(array.layout(), span_of(axes)));
}

Array expand_dims(const Array& array, std::initializer_list<int64_t> axes) {
  return array.with_layout(array::expand_dims(array.layout(), span_of(axes)));
}

Array as_strided(const Array& array, const Shape& shape, const Strides& strides, int64_t offset) {
  (void)array.dtype();  // refuses an Array without a value
  const int64_t size = elements(array.value()->shape());
  return array.with_layout(array::as_strided(shape, strides, offset, size));
}

Array reshape(const Array& array, const Shape& shape, const On& on) {
  const Shape resolved = array::resolve_reshape(array.shape(), shape);
  if (const auto view = array::reshape(array.layout(), resolved)) return array.with_layout(*view);
  return copy(array, on).with_layout(Layout::row_contiguous(resolved));
}

Array flatten(const Array& array, const On& on) { return reshape(array, {array.size()}, on); }

}  // namespace holdfast
