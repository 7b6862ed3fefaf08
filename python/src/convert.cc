#include "python/src/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/buffer.h"
#include "python/src/dlpack.h"
#include "python/src/elements.h"
#include "python/src/gil.h"

namespace holdfast::python {
namespace {

enum class Kind : uint8_t { boolean, integer, fraction };

bool is_list(nb::handle h) { return PyList_Check(h.ptr()) || PyTuple_Check(h.ptr()); }
bool is_number(nb::handle h) { return PyLong_Check(h.ptr()) || PyFloat_Check(h.ptr()); }
Kind kind_of(nb::handle h) {
  if (PyBool_Check(h.ptr())) return Kind::boolean;
  return PyLong_Check(h.ptr()) ? Kind::integer : Kind::fraction;
}

// What a scan of nested lists finds out.
struct ListScan {
  Shape shape;
  Kind kind = Kind::boolean;
  bool any = false;       // a number was seen
  bool foreign = false;   // something that is not a number of Python: an array, say
  bool above_32 = false;  // an integer does not fit in int32
  bool above_64 = false;  // nor in int64
};

void note_number(ListScan& scan, nb::handle h) {
  scan.any = true;
  scan.kind = std::max(scan.kind, kind_of(h));
  if (kind_of(h) != Kind::integer) return;
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(h.ptr(), &overflow);
  if (overflow != 0) {
    scan.above_64 = true;
  } else if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) {
    scan.above_32 = true;
  }
}

// What a list really has, whatever methods of a subclass say. Numbers may run code of the user that
// changes the list, so that an item may be gone.
Py_ssize_t count_of(nb::handle list) {
  return PyList_Check(list.ptr()) ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
}
// Invalid, with IndexError set, if it is gone.
nb::object item_at(nb::handle list, Py_ssize_t i) noexcept {
  return nb::borrow(PyList_Check(list.ptr()) ? PyList_GetItem(list.ptr(), i)
                                             : PyTuple_GetItem(list.ptr(), i));
}
nb::object item_of(nb::handle list, Py_ssize_t i) {
  nb::object item = item_at(list, i);
  if (!item.is_valid()) throw nb::python_error();
  return item;
}

void scan_list(ListScan& scan, nb::handle h, size_t depth) {
  const Py_ssize_t count = count_of(h);
  if (depth == scan.shape.size()) {
    if (scan.any) throw nb::value_error("an array needs lists of equal depth");
    scan.shape.push_back(count);
  } else if (scan.shape[depth] != count) {
    throw nb::value_error("an array needs lists of equal length");
  }
  for (Py_ssize_t i = 0; i < count && !scan.foreign; ++i) {
    const nb::object item = item_of(h, i);
    if (is_list(item)) {
      scan_list(scan, item, depth + 1);
    } else if (is_number(item)) {
      if (depth + 1 != scan.shape.size()) {
        throw nb::value_error("an array needs lists of equal depth");
      }
      note_number(scan, item);
    } else {
      scan.foreign = true;
    }
  }
}

Dtype dtype_of(const ListScan& scan) {
  if (!scan.any || scan.kind == Kind::fraction) return Dtype::float32;
  if (scan.kind == Kind::boolean) return Dtype::bool_;
  if (scan.above_64) return Dtype::uint64;
  return scan.above_32 ? Dtype::int64 : Dtype::int32;
}

[[noreturn]] void raise_overflow(Dtype dtype) {
  PyErr_Format(PyExc_OverflowError, "an integer does not fit in %s", kernel::to_string(dtype));
  throw nb::python_error();
}

template <typename T>
T integer_of(nb::handle h) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    const unsigned long long v = PyLong_AsUnsignedLongLong(h.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return v;
  } else {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(h.ptr(), &overflow);
    if (overflow != 0 || v < static_cast<long long>(std::numeric_limits<T>::min()) ||
        v > static_cast<long long>(std::numeric_limits<T>::max())) {
      raise_overflow(DtypeOf<T>::value);
    }
    return static_cast<T>(v);
  }
}

// The number as an element; as NumPy does it, fractions are cut, and integers that do not fit
// raise.
template <typename T>
T element_of(nb::handle h) {
  if constexpr (std::is_same_v<T, bool>) {
    const int truth = PyObject_IsTrue(h.ptr());
    if (truth < 0) throw nb::python_error();
    return truth == 1;
  } else {
    if constexpr (std::is_integral_v<T>) {
      if (PyLong_Check(h.ptr())) return integer_of<T>(h);
    }
    const double v = PyFloat_AsDouble(h.ptr());
    if (v == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if constexpr (std::is_integral_v<T>) {
      // The limits as doubles: the upper one is a power of two.
      const double upper = std::ldexp(1.0, std::numeric_limits<T>::digits);
      const double lower = static_cast<double>(std::numeric_limits<T>::min());
      if (!(v > lower - 1 && v < upper)) raise_overflow(DtypeOf<T>::value);
      return static_cast<T>(v);
    } else if constexpr (std::is_same_v<T, double>) {
      return v;
    } else {
      return T(static_cast<float>(v));
    }
  }
}

// Appends the numbers below `h`, whose shape a scan found. ValueError if it has another by now.
template <typename T>
void fill_list(T*& to, nb::handle h, std::span<const int64_t> shape) {
  if (shape.empty() ? !is_number(h) : !is_list(h) || count_of(h) != shape[0]) {
    throw nb::value_error("a list was changed while an array was made of it");
  }
  if (shape.empty()) {
    *to++ = element_of<T>(h);
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i) fill_list(to, item_of(h, i), shape.subspan(1));
}

Array upload(Dtype dtype, const Shape& shape, std::span<const std::byte> bytes, const On& on) {
  return without_gil([&](const WaitLimit&) { return Array(dtype, shape, bytes, {}, on); });
}

Array of_numbers(nb::handle h, const Shape& shape, Dtype dtype, const On& on) {
  const auto count = static_cast<size_t>(elements(shape));
  std::vector<std::byte> bytes(count * size_of(dtype).value);
  with_element_type(dtype, [&]<typename T>() {
    auto* to = reinterpret_cast<T*>(bytes.data());
    fill_list(to, h, shape.span());
  });
  return upload(dtype, shape, bytes, on);
}

Array with_dtype(Array a, std::optional<Dtype> dtype, const On& on) {
  return dtype && *dtype != a.dtype() ? astype(a, *dtype, on) : a;
}

// Raises RecursionError where lists, which may contain themselves, go too deep.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" while an array is made of lists") != 0) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

Array of_list(nb::handle h, std::optional<Dtype> dtype, const On& on) {
  ListScan scan;
  scan_list(scan, h, 0);
  if (!scan.foreign) return of_numbers(h, scan.shape, dtype.value_or(dtype_of(scan)), on);
  const Deeper deeper;
  std::vector<Array> parts;
  for (Py_ssize_t i = 0; i < count_of(h); ++i) {
    parts.push_back(to_array(item_of(h, i), {}, on));
  }
  return with_dtype(stack(parts, 0, on), dtype, on);
}

Array of_number(nb::handle h, std::optional<Dtype> dtype, const On& on) {
  ListScan scan;
  note_number(scan, h);
  return of_numbers(h, {}, dtype.value_or(dtype_of(scan)), on);
}

nb::object numpy_array_of(nb::handle h) {
  nb::object made = h.attr("__array__")();
  if (PyObject_CheckBuffer(made.ptr()) == 0) {
    throw nb::type_error("__array__ returned something that is not an array of NumPy");
  }
  return made;
}

[[noreturn]] void raise_not_an_array(nb::handle h) {
  throw nb::type_error(
      ("an object of type '" + std::string(nb::inst_name(h).c_str()) + "' cannot become an array")
          .c_str());
}

}  // namespace

Array to_array(nb::handle object, std::optional<Dtype> dtype, const On& on) {
  if (const Array* a = array_in(object)) return with_dtype(*a, dtype, on);
  if (is_number(object)) return of_number(object, dtype, on);
  if (is_list(object)) return of_list(object, dtype, on);
  if (PyObject_CheckBuffer(object.ptr())) {
    const ImportedBuffer buffer(object);
    return with_dtype(buffer.copied(on), dtype, on);
  }
  if (nb::hasattr(object, "__dlpack__")) {
    // A copy: the producer may write to its memory later.
    return with_dtype(import_dlpack(object, true, on), dtype, on);
  }
  if (nb::hasattr(object, "__array__")) return to_array(numpy_array_of(object), dtype, on);
  raise_not_an_array(object);
}

Array as_array(nb::handle object, std::optional<Dtype> dtype, std::optional<bool> copy_it,
               const On& on) {
  const bool must_share = copy_it && !*copy_it;
  if (const Array* a = array_in(object)) {
    if (must_share && dtype && *dtype != a->dtype()) {
      throw nb::value_error("another dtype needs a copy");
    }
    const Array made = with_dtype(*a, dtype, on);
    return copy_it && *copy_it ? copy(made, on) : made;
  }
  if (!copy_it.value_or(false) && PyObject_CheckBuffer(object.ptr())) {
    auto buffer = std::make_shared<ImportedBuffer>(object);
    if (buffer->read_only() || must_share) {
      if (std::optional<Array> shared = ImportedBuffer::shared(buffer, on)) {
        if (must_share && dtype && *dtype != shared->dtype()) {
          throw nb::value_error("another dtype needs a copy");
        }
        return with_dtype(*shared, dtype, on);
      }
    }
  }
  if (must_share) throw nb::value_error("these elements cannot be shared without a copy");
  return to_array(object, dtype, on);
}

bool ArrayLike::accepts(nb::handle h) {
  return array_in(h) != nullptr || is_number(h) || is_list(h) ||
         PyObject_CheckBuffer(h.ptr()) != 0 || nb::hasattr(h, "__dlpack__") ||
         nb::hasattr(h, "__array__");
}

Array ArrayLike::converted(const On& on) const { return to_array(object_, {}, on); }

std::optional<Term> ArrayLike::number() const {
  if (!is_number(object_)) return {};
  switch (kind_of(object_)) {
    case Kind::boolean: return Term(object_.is(Py_True));
    case Kind::fraction: return Term(PyFloat_AsDouble(object_.ptr()));
    case Kind::integer: break;
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(object_.ptr(), &overflow);
  if (overflow == 0) return Term(v);
  return Term(integer_of<uint64_t>(object_));
}

std::vector<Array> arrays_of(const std::vector<ArrayLike>& given, const On& on) {
  const auto first = std::find_if(given.begin(), given.end(),
                                  [](const ArrayLike& a) { return a.shown() != nullptr; });
  std::vector<Array> made;
  made.reserve(given.size());
  for (const ArrayLike& a : given) {
    made.push_back(first != given.end() ? a.array(on, *first) : a.array(on));
  }
  return made;
}

Scalar to_scalar(nb::handle object) {
  if (PyBool_Check(object.ptr())) return {object.is(Py_True)};
  if (PyFloat_Check(object.ptr())) return {PyFloat_AsDouble(object.ptr())};
  if (PyLong_Check(object.ptr())) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow != 0) return {integer_of<uint64_t>(object)};
    const auto narrow = static_cast<int32_t>(v);
    return narrow == v ? Scalar(narrow) : Scalar(int64_t{v});
  }
  if (PyObject_CheckBuffer(object.ptr())) {
    const ImportedBuffer buffer(object);
    if (buffer.shape().empty()) {
      Scalar scalar;
      scalar.dtype = buffer.dtype();
      std::memcpy(&scalar.bits, buffer.data(), size_of(scalar.dtype).value);
      return scalar;
    }
  }
  throw nb::type_error("a number of Python or NumPy is needed here");
}

bool integers_from(nb::handle object, std::vector<int64_t>& to) noexcept {
  to.clear();
  const auto add = [&to](nb::handle h) {
    if (PyBool_Check(h.ptr()) || PyIndex_Check(h.ptr()) == 0) return false;
    const nb::object index = nb::steal(PyNumber_Index(h.ptr()));
    int overflow = 0;
    const long long v =
        index.is_valid() ? PyLong_AsLongLongAndOverflow(index.ptr(), &overflow) : -1;
    if (!index.is_valid() || overflow != 0) {
      PyErr_Clear();
      return false;
    }
    to.push_back(v);
    return true;
  };
  if (is_list(object)) {
    for (Py_ssize_t i = 0; i < count_of(object); ++i) {
      if (!add(item_at(object, i))) return false;
    }
    return true;
  }
  return add(object);
}

}  // namespace holdfast::python
