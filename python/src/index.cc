#include "python/src/index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/convert.h"
#include "python/src/key.h"

namespace holdfast::python {
namespace {

Array first_part(const Array& x, const Key& key) {
  const Array seen = key.whole ? x : slice(x, std::span<const Slice>(key.slices));
  return seen.shape() == key.shape ? seen : reshape(seen, key.shape);
}

int64_t product(std::span<const int64_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

// How arrays of positions pick: along one axis at `axis`, after the picked axes came to the front
// of it and became one.
struct Pick {
  std::vector<int64_t> order;  // of the axes before the picked ones become one; empty: as is
  Shape ordered;               // the shape then
  Shape joined;                // and when they are one
  int64_t axis = 0;            // which that is
  Array at;                    // positions along it
  size_t place = 0;            // where the axes of `at` are in the result
};

Shape broadcast_shape(const std::vector<Array>& arrays) {
  Shape shape;
  for (const Array& a : arrays) {
    Shape next = Shape::filled(std::max(shape.size(), a.ndim()), 1);
    for (size_t i = 0; i < next.size(); ++i) {
      const auto from_end = [&](const Shape& s) {
        return i < s.size() ? s[s.size() - 1 - i] : int64_t{1};
      };
      const int64_t p = from_end(shape);
      const int64_t q = from_end(a.shape());
      if (p != q && p != 1 && q != 1) {
        throw nb::index_error("arrays of positions have shapes that cannot be broadcast");
      }
      next[next.size() - 1 - i] = p == 1 ? q : p;
    }
    shape = next;
  }
  return shape;
}

// One position for several: rows first. Where one is out of range, so is the result.
Array joined_positions(const std::vector<Array>& positions, std::span<const int64_t> lengths) {
  Array flat;
  Array outside;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Array given = astype(positions[i], Dtype::int64);
    const int64_t n = lengths[i];
    const Array at = where(given < int64_t{0}, given + n, given);
    const Array off = logical_or(at < int64_t{0}, at >= n);
    flat = flat.has_value() ? flat * n + at : at;
    outside = outside.has_value() ? logical_or(outside, off) : off;
  }
  return where(outside, std::numeric_limits<int64_t>::min(), flat);
}

Pick pick_of(const Key& key) {
  Pick pick;
  const size_t ndim = key.shape.size();
  if (key.axes.size() == 1) {
    pick.ordered = pick.joined = key.shape;
    pick.axis = static_cast<int64_t>(key.axes[0]);
    pick.at = key.positions[0];
    pick.place = key.together ? key.axes[0] : 0;
    return pick;
  }
  for (const size_t axis : key.axes) pick.order.push_back(static_cast<int64_t>(axis));
  for (size_t i = 0; i < ndim; ++i) {
    if (std::find(key.axes.begin(), key.axes.end(), i) == key.axes.end()) {
      pick.order.push_back(static_cast<int64_t>(i));
    }
  }
  std::vector<int64_t> lengths;
  for (const int64_t axis : pick.order)
    pick.ordered.push_back(key.shape[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < key.axes.size(); ++i) lengths.push_back(pick.ordered[i]);
  pick.joined.push_back(product(lengths));
  for (size_t i = key.axes.size(); i < ndim; ++i) pick.joined.push_back(pick.ordered[i]);
  const Shape shape = broadcast_shape(key.positions);
  std::vector<Array> positions;
  for (const Array& p : key.positions) positions.push_back(broadcast_to(p, shape));
  pick.at = joined_positions(positions, lengths);
  pick.place = key.together ? key.axes[0] : 0;
  return pick;
}

// Moves `count` axes from one place to another, the others keeping their order.
Array with_axes_moved(const Array& x, size_t count, size_t from, size_t to) {
  if (from == to || count == 0) return x;
  std::vector<int64_t> others;
  std::vector<int64_t> moved;
  for (size_t i = 0; i < x.ndim(); ++i) {
    (i >= from && i < from + count ? moved : others).push_back(static_cast<int64_t>(i));
  }
  others.insert(others.begin() + static_cast<std::ptrdiff_t>(to), moved.begin(), moved.end());
  return transpose(x, std::span<const int64_t>(others));
}

Array in_order(const Array& x, const Pick& pick) {
  if (pick.order.empty()) return x;
  return reshape(transpose(x, std::span<const int64_t>(pick.order)), pick.joined);
}

Array out_of_order(const Array& x, const Pick& pick) {
  if (pick.order.empty()) return x;
  std::vector<int64_t> back(pick.order.size());
  for (size_t i = 0; i < back.size(); ++i) {
    back[static_cast<size_t>(pick.order[i])] = static_cast<int64_t>(i);
  }
  return transpose(reshape(x, pick.ordered), std::span<const int64_t>(back));
}

Array updated(const Array& old, const Array& by, Update how) {
  switch (how) {
    case Update::set: break;
    case Update::add: return old + by;
    case Update::multiply: return old * by;
    case Update::max: return maximum(old, by);
    case Update::min: return minimum(old, by);
  }
  return by;
}

// `value` stretched to a shape, which may have fewer axes if those that are missing have length
// one.
Array fitted(const Array& value, const Shape& shape) {
  Array v = value;
  while (v.ndim() > shape.size() && v.shape()[0] == 1) v = index(v, 0);
  return broadcast_to(v, shape);
}

// The shape of x through the key's slices alone: with the axes of integers, without those of None.
Shape sliced_shape(const Array& x, const Key& key) {
  Shape shape;
  for (size_t i = 0; i < x.ndim(); ++i) shape.push_back(length_of(key.slices[i], x.shape()[i]));
  return shape;
}

// The shape of x[key], where `from` is x after in_order().
Shape picked_shape(const Array& from, const Pick& pick) {
  std::vector<int64_t> lengths(from.shape().begin(), from.shape().end());
  lengths.erase(lengths.begin() + pick.axis);
  lengths.insert(lengths.begin() + static_cast<std::ptrdiff_t>(pick.place), pick.at.shape().begin(),
                 pick.at.shape().end());
  return Shape(std::span<const int64_t>(lengths));
}

// What becomes of the key's first part, `seen`, when its elements are updated.
Array updated_part(const Array& seen, const Key& key, const Array& value, Update how) {
  if (key.axes.empty()) return updated(seen, fitted(value, seen.shape()), how);
  const Pick pick = pick_of(key);
  const Array from = in_order(seen, pick);
  const Array updates = with_axes_moved(fitted(value, picked_shape(from, pick)), pick.at.ndim(),
                                        pick.place, static_cast<size_t>(pick.axis));
  return out_of_order(scatter(from, pick.at, updates, pick.axis, how), pick);
}

}  // namespace

Array get_item(const Array& x, nb::handle given) {
  const Key key = parse_key(x, given);
  const Array seen = first_part(x, key);
  if (key.axes.empty()) return seen;
  const Pick pick = pick_of(key);
  const Array taken = take(in_order(seen, pick), pick.at, pick.axis);
  return with_axes_moved(taken, pick.at.ndim(), static_cast<size_t>(pick.axis), pick.place);
}

Array set_item(Array x, nb::handle given, const ArrayLike& value, Update how) {
  const Key key = parse_key(x, given);
  const Array v = to_array(value.object(), x.dtype(), x.device());
  const bool replaces = key.axes.empty() && how == Update::set;
  const Array part =
      replaces ? fitted(v, key.shape) : updated_part(first_part(x, key), key, v, how);
  if (key.whole && !replaces) return reshape(part, x.shape());
  const Array update = reshape(part, sliced_shape(x, key));
  if (update.size() == 0) return x;
  return slice_update(std::move(x), update, std::span<const Slice>(key.slices));
}

}  // namespace holdfast::python
