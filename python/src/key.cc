#include "python/src/key.h"

#include <algorithm>
#include <limits>
#include <string>

#include "holdfast/ops.h"
#include "python/src/convert.h"

namespace holdfast::python {
namespace {

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

}  // namespace

int64_t length_of(const Slice& slice, int64_t length) {
  const bool forward = slice.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  const auto bounded = [&](const std::optional<int64_t>& at, int64_t missing) {
    return at ? std::clamp(*at < 0 ? *at + length : *at, low, high) : missing;
  };
  const int64_t start = bounded(slice.start, forward ? low : high);
  const int64_t stop = bounded(slice.stop, forward ? high : low);
  const int64_t distance = forward ? stop - start : start - stop;
  if (distance <= 0) return 0;
  // Unsigned: the lowest step has no negation, and the distance and a large step no sum.
  const uint64_t step =
      forward ? static_cast<uint64_t>(slice.step) : -static_cast<uint64_t>(slice.step);
  return static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / step + 1);
}

Key parse_key(const Array& x, nb::handle given) { return Parser(x, given).key(); }

}  // namespace holdfast::python
