#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/array/layouts.h"
#include "holdfast/dtypes.h"

// Arrays that are computed at once, one element after the other, in the plainest way there is. All
// numbers are small integers, so that every dtype has them exactly and results can be compared
// with ==.
namespace holdfast::random_graphs {

using Values = std::vector<double>;

struct Eager {
  Dtype dtype = float32;
  Shape shape;
  // Of the result that it shows, and where in it each element lies.
  std::shared_ptr<const Values> memory = std::make_shared<Values>();
  std::vector<int64_t> at;
  // False: whether this shows a result of its own is the library's business.
  bool memory_is_known = true;

  Eager() = default;
  Eager(Dtype type, const Shape& lengths, Values values)
      : dtype(type), shape(lengths), memory(std::make_shared<Values>(std::move(values))) {
    for (size_t i = 0; i < memory->size(); ++i) at.push_back(static_cast<int64_t>(i));
  }
  size_t size() const { return at.size(); }
  size_t rank() const { return shape.size(); }
  double operator[](size_t i) const { return (*memory)[static_cast<size_t>(at[i])]; }
  Values values() const {
    Values all;
    for (size_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
    return all;
  }
  bool is_whole() const {
    for (size_t i = 0; i < size(); ++i) {
      if (at[i] != static_cast<int64_t>(i)) return false;
    }
    return size() == memory->size();
  }
  double largest() const {
    double most = 0;
    for (size_t i = 0; i < size(); ++i) most = std::max(most, std::abs((*this)[i]));
    return most;
  }
};

inline int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return count;
}

// The position in each axis of the i-th element, and back.
inline Dims position_of(int64_t i, const Shape& shape) {
  Dims position = Dims::filled(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0;) {
    position[d] = i % shape[d];
    i /= shape[d];
  }
  return position;
}
inline int64_t number_of(const Dims& position, const Shape& shape) {
  int64_t i = 0;
  for (size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + position[d];
  return i;
}

// A view: which element of `from` each position shows.
inline Eager view_of(const Eager& from, const Shape& shape,
                     const std::function<int64_t(const Dims&)>& element) {
  Eager view = from;
  view.shape = shape;
  view.at.clear();
  for (int64_t i = 0; i < count_of(shape); ++i) {
    view.at.push_back(from.at[static_cast<size_t>(element(position_of(i, shape)))]);
  }
  return view;
}
// A result: what each position has.
inline Eager result_of(Dtype dtype, const Shape& shape,
                       const std::function<double(const Dims&)>& element) {
  Values values;
  for (int64_t i = 0; i < count_of(shape); ++i) values.push_back(element(position_of(i, shape)));
  return {dtype, shape, std::move(values)};
}

// Views

// The positions of a slice, as Python has them.
inline std::vector<int64_t> positions_of(const Slice& slice, int64_t length) {
  const bool up = slice.step > 0;
  const auto bound = [&](const std::optional<int64_t>& given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t at = *given < 0 ? *given + length : *given;
    return up ? std::clamp<int64_t>(at, 0, length) : std::clamp<int64_t>(at, -1, length - 1);
  };
  const int64_t stop = bound(slice.stop, up ? length : -1);
  std::vector<int64_t> positions;
  for (int64_t i = bound(slice.start, up ? 0 : length - 1); up ? i < stop : i > stop;
       i += slice.step) {
    positions.push_back(i);
  }
  return positions;
}
inline Eager sliced(const Eager& from, const std::vector<Slice>& slices) {
  std::vector<std::vector<int64_t>> positions;
  Shape shape;
  for (size_t d = 0; d < from.rank(); ++d) {
    positions.push_back(positions_of(d < slices.size() ? slices[d] : Slice{}, from.shape[d]));
    shape.push_back(static_cast<int64_t>(positions.back().size()));
  }
  return view_of(from, shape, [&](const Dims& to) {
    Dims position = to;
    for (size_t d = 0; d < to.size(); ++d) position[d] = positions[d][static_cast<size_t>(to[d])];
    return number_of(position, from.shape);
  });
}

inline Eager transposed(const Eager& from, const Dims& axes) {
  Shape shape;
  for (const int64_t axis : axes) shape.push_back(from.shape[static_cast<size_t>(axis)]);
  return view_of(from, shape, [&](const Dims& to) {
    Dims position = to;
    for (size_t d = 0; d < to.size(); ++d) position[static_cast<size_t>(axes[d])] = to[d];
    return number_of(position, from.shape);
  });
}
inline Eager with_last_axes_swapped(const Eager& from) {
  Dims axes;
  for (size_t d = 0; d < from.rank(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (from.rank() >= 2) std::swap(axes[from.rank() - 1], axes[from.rank() - 2]);
  return transposed(from, axes);
}

inline Eager reshaped(const Eager& from, const Shape& shape) {
  Eager view = from;
  view.shape = shape;
  view.memory_is_known = from.memory_is_known && from.is_whole();
  return view;
}

inline Eager broadcasted(const Eager& from, const Shape& shape) {
  const size_t more = shape.size() - from.rank();
  return view_of(from, shape, [&](const Dims& to) {
    Dims position = Dims::filled(from.rank(), 0);
    for (size_t d = 0; d < from.rank(); ++d) {
      position[d] = from.shape[d] == 1 ? 0 : to[d + more];
    }
    return number_of(position, from.shape);
  });
}
inline std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape shape = Dims::filled(rank, 1);
  for (const Shape* from : {&a, &b}) {
    const size_t more = rank - from->size();
    for (size_t d = 0; d < from->size(); ++d) {
      int64_t& length = shape[d + more];
      if ((*from)[d] == 1 || (*from)[d] == length) continue;
      if (length != 1) return std::nullopt;
      length = (*from)[d];
    }
  }
  return shape;
}

inline Eager strided_view(const Eager& from, const Shape& shape, const Strides& strides,
                          int64_t offset) {
  Eager view = from;
  view.shape = shape;
  view.at.clear();
  for (int64_t i = 0; i < count_of(shape); ++i) {
    const Dims position = position_of(i, shape);
    int64_t at = offset;
    for (size_t d = 0; d < shape.size(); ++d) at += position[d] * strides[d];
    view.at.push_back(at);
  }
  return view;
}

// Results

inline double floor_remainder(double x, double by) { return x - by * std::floor(x / by); }

inline Eager mapped(const Eager& a, Dtype dtype, const std::function<double(double)>& f) {
  Values values = a.values();
  for (double& v : values) v = f(v);
  return {dtype, a.shape, std::move(values)};
}
inline Eager joined(const Eager& a, const Eager& b,
                    const std::function<double(double, double)>& f) {
  const Shape shape = *broadcast_shape(a.shape, b.shape);
  const Eager x = broadcasted(a, shape);
  const Eager y = broadcasted(b, shape);
  Values values;
  for (size_t i = 0; i < x.size(); ++i) values.push_back(f(x[i], y[i]));
  return {a.dtype, shape, std::move(values)};
}

inline bool contains(const Dims& dims, size_t axis) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) != dims.end();
}
inline Eager reduced(const Eager& a, const Dims& axes, bool keeps_dims, bool is_sum) {
  Shape kept;
  Shape shape;
  for (size_t d = 0; d < a.rank(); ++d) {
    const bool away = contains(axes, d);
    kept.push_back(away ? 1 : a.shape[d]);
    if (!away || keeps_dims) shape.push_back(kept.back());
  }
  std::vector<std::optional<double>> all(static_cast<size_t>(count_of(kept)));
  for (size_t i = 0; i < a.size(); ++i) {
    Dims position = position_of(static_cast<int64_t>(i), a.shape);
    for (size_t d = 0; d < a.rank(); ++d) position[d] = kept[d] == 1 ? 0 : position[d];
    std::optional<double>& to = all[static_cast<size_t>(number_of(position, kept))];
    to = !to ? a[i] : is_sum ? *to + a[i] : std::max(*to, a[i]);
  }
  Values values;
  for (const std::optional<double>& v : all) values.push_back(v.value_or(0));
  return {a.dtype, shape, std::move(values)};
}

// Two vectors, or two stacks of matrices with the same leading axes.
inline Eager multiplied(const Eager& a, const Eager& b) {
  if (a.rank() == 1) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return {a.dtype, {}, {sum}};
  }
  const size_t row = a.rank() - 2;
  const size_t column = a.rank() - 1;
  Shape shape = a.shape;
  shape[column] = b.shape[column];
  return result_of(a.dtype, shape, [&](const Dims& to) {
    double sum = 0;
    for (int64_t k = 0; k < a.shape[column]; ++k) {
      Dims in_a = to;
      Dims in_b = to;
      in_a[column] = k;
      in_b[row] = k;
      sum += a[static_cast<size_t>(number_of(in_a, a.shape))] *
             b[static_cast<size_t>(number_of(in_b, b.shape))];
    }
    return sum;
  });
}

inline Eager concatenated(const Eager& a, const Eager& b, size_t axis) {
  Shape shape = a.shape;
  shape[axis] += b.shape[axis];
  return result_of(a.dtype, shape, [&](const Dims& to) {
    const bool first = to[axis] < a.shape[axis];
    Dims position = to;
    if (!first) position[axis] -= a.shape[axis];
    const Eager& from = first ? a : b;
    return from[static_cast<size_t>(number_of(position, from.shape))];
  });
}

// Negative positions count from the end.
inline Eager taken_from(const Eager& a, const Eager& indices, size_t axis) {
  Shape shape;
  for (size_t d = 0; d < axis; ++d) shape.push_back(a.shape[d]);
  for (const int64_t length : indices.shape) shape.push_back(length);
  for (size_t d = axis + 1; d < a.rank(); ++d) shape.push_back(a.shape[d]);
  return result_of(a.dtype, shape, [&](const Dims& to) {
    Dims of_index;
    for (size_t d = 0; d < indices.rank(); ++d) of_index.push_back(to[axis + d]);
    const auto i =
        static_cast<int64_t>(indices[static_cast<size_t>(number_of(of_index, indices.shape))]);
    Dims position;
    for (size_t d = 0; d < axis; ++d) position.push_back(to[d]);
    position.push_back(i < 0 ? i + a.shape[axis] : i);
    for (size_t d = axis + indices.rank(); d < to.size(); ++d) position.push_back(to[d]);
    return a[static_cast<size_t>(number_of(position, a.shape))];
  });
}

inline Eager updated(const Eager& a, const Eager& update, const std::vector<Slice>& slices) {
  Values values = a.values();
  const Eager where = sliced({a.dtype, a.shape, values}, slices);
  const Eager fitted = broadcasted(update, where.shape);
  for (size_t i = 0; i < where.size(); ++i) values[static_cast<size_t>(where.at[i])] = fitted[i];
  return {a.dtype, a.shape, std::move(values)};
}

// Kernels. They keep numbers small themselves.

constexpr int64_t kWrap = 61;
// As C++ has it: the sign is x's.
inline double wrapped(int64_t x) { return static_cast<double>(x % kWrap); }
inline int64_t whole(double x) { return static_cast<int64_t>(x); }

}  // namespace holdfast::random_graphs
