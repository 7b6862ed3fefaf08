#include "python/src/index.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/buffer.h"
#include "python/src/convert.h"

namespace holdfast::python {
namespace {

// A key in two parts. First x is seen through slices, one for each of its axes, and given a shape
// in which the axes that integers pick are gone, those of None are there, and the axes of an array
// of bool are one. Then arrays of positions pick along some axes of that.
struct Key {
  std::vector<Slice> slices;     // one for each axis of x
  bool whole = true;             // no slice leaves anything out
  Shape shape;                   // of the first part
  std::vector<size_t> axes;      // of `shape`, that arrays pick along; ascending
  std::vector<Array> positions;  // one for each of them
  bool together = true;          // no slice, None or Ellipsis stands between the arrays
};

[[noreturn]] void raise_out_of_range(int64_t at, size_t axis, int64_t length) {
  throw nb::index_error(("position " + std::to_string(at) + " of axis " + std::to_string(axis) +
                         ", which has " + std::to_string(length))
                            .c_str());
}

bool is_integer(nb::handle h) {
  if (PyBool_Check(h.ptr()) || nb::isinstance<Array>(h)) return false;
  if (PyLong_Check(h.ptr())) return true;
  if (PyIndex_Check(h.ptr()) == 0) return false;
  // To Python, NumPy's arrays of one element are integers, too, and so is its bool before 2.3.
  if (nb::len(nb::getattr(h, "shape", nb::make_tuple())) != 0) return false;
  if (dtype_from(nb::getattr(h, "dtype", nb::none())) == Dtype::bool_) return false;
  const nb::object index = nb::steal(PyNumber_Index(h.ptr()));
  if (!index.is_valid()) PyErr_Clear();
  return index.is_valid();
}

int64_t integer_from(nb::handle h) {
  const nb::object index = nb::steal(PyNumber_Index(h.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) throw nb::index_error("a position beyond any array");
  return v;
}

std::optional<int64_t> bound_from(nb::handle h) {
  if (h.is_none()) return {};
  if (array_in(h) != nullptr) return integer_from(nb::object(h.attr("item")()));
  // As Python does it, a bound beyond any array means its end.
  const nb::object index = nb::steal(PyNumber_Index(h.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0) return v;
  return overflow < 0 ? std::numeric_limits<int64_t>::min() / 2
                      : std::numeric_limits<int64_t>::max() / 2;
}

Slice slice_from(nb::handle h) {
  Slice made{.start = bound_from(h.attr("start")), .stop = bound_from(h.attr("stop"))};
  made.step = bound_from(h.attr("step")).value_or(1);
  if (made.step == 0) throw nb::value_error("slice step cannot be zero");
  return made;
}

int64_t length_of(const Slice& slice, int64_t length) {
  const auto clamp = [&](int64_t at, int64_t low, int64_t high) {
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  if (slice.step > 0) {
    const int64_t start = slice.start ? clamp(*slice.start, 0, length) : 0;
    const int64_t stop = slice.stop ? clamp(*slice.stop, 0, length) : length;
    return std::max<int64_t>(0, (stop - start + slice.step - 1) / slice.step);
  }
  const int64_t start = slice.start ? clamp(*slice.start, -1, length - 1) : length - 1;
  const int64_t stop = slice.stop ? clamp(*slice.stop, -1, length - 1) : -1;
  return std::max<int64_t>(0, (start - stop - slice.step - 1) / -slice.step);
}

// Where the mask is true, as positions in the flattened mask. Evaluates it: an accounted wait.
Array positions_of(const Array& mask) {
  std::vector<std::byte> bytes(static_cast<size_t>(mask.size()));
  return without_gil([&, held = mask](const WaitLimit& limit) {
    held.copy_to(bytes, limit);
    std::vector<int32_t> found;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != std::byte{}) found.push_back(static_cast<int32_t>(i));
    }
    return Array(std::span<const int32_t>(found), Shape{static_cast<int64_t>(found.size())}, {},
                 held.device());
  });
}

class Parser {
 public:
  Parser(const Array& x, nb::handle key) : x_(x) {
    std::vector<nb::object> items;
    if (PyTuple_Check(key.ptr())) {
      for (const nb::handle item : nb::borrow(key)) items.push_back(nb::borrow(item));
    } else {
      items.push_back(nb::borrow(key));
    }
    size_t used = 0;
    bool has_ellipsis = false;
    for (nb::object& item : items) {
      if (item.is(Py_Ellipsis)) {
        if (has_ellipsis) throw nb::index_error("an index can only have a single ellipsis ('...')");
        has_ellipsis = true;
      } else if (!item.is_none()) {
        used += axes_used_by(item);
      }
      // In NumPy, integers beside an array count as arrays.
      any_array_ = any_array_ || is_array(item);
    }
    if (used > x.ndim()) {
      throw nb::index_error(("too many indices: " + std::to_string(used) + " for an array with " +
                             std::to_string(x.ndim()) + " axes")
                                .c_str());
    }
    for (const nb::object& item : items) {
      if (item.is(Py_Ellipsis)) {
        take_whole(x.ndim() - used);
        array_ended();
      } else {
        take(item);
      }
    }
    take_whole(x.ndim() - axis_);
  }

  Key key() && { return std::move(key_); }

 private:
  static bool is_array(nb::handle h) {
    return !h.is_none() && !h.is(Py_Ellipsis) && PySlice_Check(h.ptr()) == 0 && !is_integer(h);
  }

  // Replaces what becomes an array by that array.
  size_t axes_used_by(nb::object& item) const {
    if (!is_array(item)) return 1;
    if (!ArrayLike::accepts(item)) {
      throw nb::type_error(
          "an index is an integer, a slice, None, an Ellipsis, or an array of integers or bool");
    }
    Array array = to_array(item, {}, x_.device());
    if (array.dtype() != Dtype::bool_ && !holdfast::is_integer(array.dtype())) {
      if (array.size() != 0) throw nb::index_error("arrays of positions are of integers or bool");
      array = astype(array, Dtype::int32);  // [] is a list of no positions
    }
    const size_t used = array.dtype() == Dtype::bool_ ? array.ndim() : 1;
    item = nb::cast(std::move(array));
    return used;
  }

  int64_t length() const { return x_.shape()[axis_]; }

  void array_ended() {
    if (in_arrays_) gap_ = true;
    in_arrays_ = false;
  }

  void take_whole(size_t count) {
    for (; count > 0; --count) {
      key_.shape.push_back(length());
      key_.slices.emplace_back();
      ++axis_;
    }
  }

  void take(const nb::object& item) {
    if (item.is_none()) {
      array_ended();
      key_.shape.push_back(1);
    } else if (PySlice_Check(item.ptr())) {
      array_ended();
      const Slice slice = slice_from(item);
      key_.shape.push_back(length_of(slice, length()));
      key_.whole = key_.whole && slice.step == 1 && key_.shape.back() == length();
      key_.slices.push_back(slice);
      ++axis_;
    } else if (is_integer(item)) {
      take_integer(integer_from(item));
    } else {
      take_array(*array_in(item));
    }
  }

  void take_integer(int64_t at) {
    const int64_t n = length();
    if (at < -n || at >= n) raise_out_of_range(at, axis_, n);
    if (at < 0) at += n;
    key_.whole = key_.whole && n == 1;
    key_.slices.push_back({.start = at, .stop = at + 1});
    ++axis_;
    // Beside arrays, it decides where their axes go.
    if (any_array_) mark_array();
  }

  void mark_array() {
    if (!in_arrays_ && gap_) key_.together = false;
    in_arrays_ = true;
  }

  void take_array(const Array& array) {
    mark_array();
    key_.axes.push_back(key_.shape.size());
    if (array.dtype() != Dtype::bool_) {
      key_.shape.push_back(length());
      key_.slices.emplace_back();
      ++axis_;
      key_.positions.push_back(array);
      return;
    }
    int64_t joined = 1;
    for (size_t i = 0; i < array.ndim(); ++i) {
      if (array.shape()[i] != length()) {
        throw nb::index_error(("a mask of shape " + to_string(array.shape()) +
                               " does not fit an array of shape " + to_string(x_.shape()))
                                  .c_str());
      }
      joined *= length();
      key_.slices.emplace_back();
      ++axis_;
    }
    key_.shape.push_back(joined);
    key_.positions.push_back(positions_of(array));
  }

  const Array& x_;
  Key key_;
  size_t axis_ = 0;         // of x, that comes next
  bool any_array_ = false;  // in the key
  bool in_arrays_ = false;  // the last item was an array
  bool gap_ = false;        // something else came after an array
};

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

}  // namespace

Array get_item(const Array& x, nb::handle given) {
  const Key key = Parser(x, given).key();
  const Array seen = first_part(x, key);
  if (key.axes.empty()) return seen;
  const Pick pick = pick_of(key);
  const Array taken = take(in_order(seen, pick), pick.at, pick.axis);
  return with_axes_moved(taken, pick.at.ndim(), static_cast<size_t>(pick.axis), pick.place);
}

Array set_item(Array x, nb::handle given, const ArrayLike& value, Update how) {
  const Key key = Parser(x, given).key();
  const Array v = to_array(value.object(), x.dtype(), x.device());
  if (key.axes.empty() && how == Update::set) {
    // The update's shape among the slices: None's axes gone, those of integers there.
    Shape sliced;
    for (size_t i = 0; i < x.ndim(); ++i) {
      sliced.push_back(length_of(key.slices[i], x.shape()[i]));
    }
    const Array update = reshape(fitted(v, key.shape), sliced);
    if (update.size() == 0) return x;
    return slice_update(std::move(x), update, std::span<const Slice>(key.slices));
  }
  const Array seen = first_part(x, key);
  Array changed;
  if (key.axes.empty()) {
    changed = updated(seen, fitted(v, seen.shape()), how);
  } else {
    const Pick pick = pick_of(key);
    const Array from = in_order(seen, pick);
    // The shape of x[key], then of take(): with the axes of the positions where they belong.
    Shape shape;
    for (size_t i = 0; i <= from.ndim() - 1; ++i) {
      if (i == static_cast<size_t>(pick.axis)) continue;
      shape.push_back(from.shape()[i]);
    }
    Shape result;
    for (size_t i = 0; i <= shape.size(); ++i) {
      if (i == pick.place) {
        for (const int64_t n : pick.at.shape()) result.push_back(n);
      }
      if (i < shape.size()) result.push_back(shape[i]);
    }
    const Array updates = with_axes_moved(fitted(v, result), pick.at.ndim(), pick.place,
                                          static_cast<size_t>(pick.axis));
    changed = out_of_order(scatter(from, pick.at, updates, pick.axis, how), pick);
  }
  if (key.whole) return reshape(changed, x.shape());
  Shape sliced;
  for (size_t i = 0; i < x.ndim(); ++i) sliced.push_back(length_of(key.slices[i], x.shape()[i]));
  const Array update = reshape(changed, sliced);
  if (update.size() == 0) return x;
  return slice_update(std::move(x), update, std::span<const Slice>(key.slices));
}

}  // namespace holdfast::python
