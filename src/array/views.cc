#include "holdfast/views.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "holdfast/array/compile/trace.h"
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
  array::refuse_lengths(array, "slice");
  return array.with_layout(array::slice(array.layout(), slices));
}
Array slice(const Array& array, std::initializer_list<Slice> slices) {
  return slice(array, span_of(slices));
}

Array index(const Array& array, int64_t at, int64_t axis) {
  array::refuse_lengths(array, "index");
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
  const int64_t first = at < 0 ? at + length : at;
  const Layout one = array::slice_along(layout, i, {.start = first, .stop = first + 1});
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

Array moveaxis(const Array& array, int64_t source, int64_t destination) {
  return moveaxis(array, std::span(&source, 1), std::span(&destination, 1));
}
Array moveaxis(const Array& array, std::span<const int64_t> source,
               std::span<const int64_t> destination) {
  if (source.size() != destination.size()) {
    throw UsageError(
        fmt::format("moveaxis: {} axes cannot go to {} places; give one place for each axis",
                    source.size(), destination.size()));
  }
  const size_t rank = array.ndim();
  // Where each axis of the result comes from; -1: not known yet.
  Dims order = Dims::filled(rank, -1);
  Dims moved = Dims::filled(rank, 0);
  for (size_t i = 0; i < source.size(); ++i) {
    const size_t from = array::normal_axis(source[i], rank, "moveaxis");
    const size_t to = array::normal_axis(destination[i], rank, "moveaxis");
    if (moved[from] != 0 || order[to] != -1) {
      throw UsageError(fmt::format("moveaxis: axis {} is named twice among the {}; name it once",
                                   moved[from] != 0 ? from : to,
                                   moved[from] != 0 ? "sources" : "destinations"));
    }
    moved[from] = 1;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (size_t to = 0; to < rank; ++to) {
    if (order[to] != -1) continue;
    while (moved[next] != 0) ++next;
    order[to] = static_cast<int64_t>(next++);
  }
  // Without axes, transpose would reverse their order.
  return rank == 0 ? array : transpose(array, order.span());
}

Array flip(const Array& array, std::initializer_list<int64_t> axes) {
  return flip(array, span_of(axes));
}
Array flip(const Array& array, std::span<const int64_t> axes) {
  const size_t rank = array.ndim();
  std::array<Slice, Dims::kMaxDims> slices{};
  for (const int64_t axis : array::normal_axes(axes, rank, "flip")) {
    slices.at(static_cast<size_t>(axis)).step = -1;
  }
  return slice(array, std::span<const Slice>(slices).first(rank));
}

Array broadcast_to(const Array& array, const Shape& shape) {
  array::refuse_lengths(array, "broadcast_to");
  return array.with_layout(array::broadcast_to(array.layout(), shape));
}

std::vector<Array> split(const Array& array, int64_t parts, int64_t axis) {
  array::refuse_lengths(array, "split");
  const size_t at = array::normal_axis(axis, array.ndim(), "split");
  const int64_t length = array.shape()[at];
  if (parts < 1 || length % parts != 0) {
    throw UsageError(
        fmt::format("split: axis {} of shape {} has no {} equal parts; choose a number that "
                    "divides {}, or name the positions to split at",
                    at, to_string(array.shape()), parts, length));
  }
  std::vector<Array> result;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = i * (length / parts);
    result.push_back(array.with_layout(
        array::slice_along(array.layout(), at, {.start = first, .stop = first + length / parts})));
  }
  return result;
}
std::vector<Array> split(const Array& array, std::initializer_list<int64_t> positions,
                         int64_t axis) {
  return split(array, span_of(positions), axis);
}
std::vector<Array> split(const Array& array, std::span<const int64_t> positions, int64_t axis) {
  array::refuse_lengths(array, "split");
  const size_t at = array::normal_axis(axis, array.ndim(), "split");
  std::vector<Array> result;
  Slice part{.start = 0};
  for (const int64_t position : positions) {
    part.stop = position;
    result.push_back(array.with_layout(array::slice_along(array.layout(), at, part)));
    part.start = position;
  }
  part.stop = {};
  result.push_back(array.with_layout(array::slice_along(array.layout(), at, part)));
  return result;
}

std::vector<Array> meshgrid(std::span<const Array> arrays, Indexing indexing, bool sparse) {
  const size_t rank = arrays.size();
  // Which axis of the grid is an array's own.
  const auto own = [&](size_t i) {
    return indexing == Indexing::xy && rank > 1 && i < 2 ? 1 - i : i;
  };
  Shape grid = Dims::filled(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    if (arrays[i].ndim() > 1) {
      throw UsageError(
          fmt::format("meshgrid: array {} has the shape {}; give arrays of one axis, or flatten it",
                      i, to_string(arrays[i].shape())));
    }
    grid[own(i)] = arrays[i].size();
  }
  std::vector<Array> result;
  for (size_t i = 0; i < rank; ++i) {
    Shape shape = Dims::filled(rank, 1);
    shape[own(i)] = arrays[i].size();
    const Array axis = reshape(arrays[i], shape);
    result.push_back(sparse ? axis : broadcast_to(axis, grid));
  }
  return result;
}
std::vector<Array> meshgrid(std::initializer_list<Array> arrays, Indexing indexing, bool sparse) {
  return meshgrid(std::span<const Array>(arrays.begin(), arrays.size()), indexing, sparse);
}

Array squeeze(const Array& array, std::initializer_list<int64_t> axes) {
  return squeeze(array, span_of(axes));
}
Array squeeze(const Array& array, std::span<const int64_t> axes) {
  return array.with_layout(array::squeeze(array.layout(), axes));
}

Array expand_dims(const Array& array, std::initializer_list<int64_t> axes) {
  return expand_dims(array, span_of(axes));
}
Array expand_dims(const Array& array, std::span<const int64_t> axes) {
  return array.with_layout(array::expand_dims(array.layout(), axes));
}

Array as_strided(const Array& array, const Shape& shape, const Strides& strides, int64_t offset) {
  array::refuse_lengths(array, "as_strided");
  (void)array.dtype();  // refuses an Array without a value
  const int64_t size = elements(array.value()->shape());
  array::Tracing* const tracing = array::Tracing::current();
  if (tracing != nullptr && tracing->is_partial(array)) {
    // Of the right shape: what it shows is not used.
    tracing->add_obstacle("it uses as_strided on an argument that is a view");
    return array.with_layout({shape, Strides::filled(shape.size(), 0), 0});
  }
  return array.with_layout(array::as_strided(shape, strides, offset, size));
}

Array reshape(const Array& array, const Shape& shape, const On& on) {
  array::refuse_lengths(array, "reshape");
  const Shape resolved = array::resolve_reshape(array.shape(), shape);
  if (const auto view = array::reshape(array.layout(), resolved)) return array.with_layout(*view);
  return copy(array, on).with_layout(Layout::row_contiguous(resolved));
}

Array flatten(const Array& array, const On& on) { return reshape(array, {array.size()}, on); }

}  // namespace holdfast
