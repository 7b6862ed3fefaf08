#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "holdfast/array.h"
#include "holdfast/kernel.h"
#include "holdfast/ops.h"

namespace holdfast::python {

namespace nb = nanobind;

// What `hf.float32` and its like are in Python.
struct DtypeObject {
  Dtype dtype = Dtype::float32;
};

// The dtype that a Python object names: a Dtype, "float16", numpy.float16, float, int, bool.
std::optional<Dtype> dtype_from(nb::handle object);
// The one object of each dtype. Borrowed.
nb::handle object_of(Dtype dtype);

// The Array of a Python object; null if it is none, or one whose __init__ was not called.
inline Array* array_in(nb::handle object) noexcept {
  return nb::isinstance<Array>(object) && nb::inst_ready(object) ? nb::inst_ptr<Array>(object)
                                                                 : nullptr;
}

// An argument that stands for an array: an array, a number, a nested list, or an object with a
// buffer, __dlpack__ or __array__. Borrowed for the call. Elements that are not on a device yet go
// where `on` says, else beside the first array among the other arguments.
class ArrayLike {
 public:
  ArrayLike() = default;
  explicit ArrayLike(nb::handle object) : object_(object) {}
  // Whether the object looks like one; nothing is read.
  static bool accepts(nb::handle object);

  nb::handle object() const noexcept { return object_; }
  // Null if the object is not an array.
  const Array* shown() const noexcept { return array_in(object_); }

  // Numbers become 0-d arrays of bool, int32 (int64, uint64 where it needs them) or float32.
  template <typename... Others>
  Array array(const On& on, const Others&... beside) const {
    if (const Array* a = shown()) return *a;
    return converted(home(on, beside...));
  }
  // Python's numbers stay numbers: they adapt to the arrays beside them.
  template <typename... Others>
  Term term(const On& on, const Others&... beside) const {
    if (const Array* a = shown()) return {*a};
    if (const std::optional<Term> n = number()) return *n;
    return {converted(home(on, beside...))};
  }

 private:
  static const Array* array_of(const Array& array) noexcept { return &array; }
  static const Array* array_of(const ArrayLike& given) noexcept { return given.shown(); }
  template <typename... Others>
  static On home(const On& on, const Others&... beside) {
    const Array* found = nullptr;
    ((found = found != nullptr ? found : array_of(beside)), ...);
    return on.state() || found == nullptr ? on : On(found->device());
  }
  Array converted(const On& on) const;
  std::optional<Term> number() const;

  nb::handle object_;
};

// All of them as arrays, beside the first that is one.
std::vector<Array> arrays_of(const std::vector<ArrayLike>& given, const On& on);

// The axes of a reduction: none, one, or several.
struct Axes {
  std::optional<std::vector<int64_t>> values{};
};

// Whether the object is a sequence of integers, or one integer, put into `to`.
bool integers_from(nb::handle object, std::vector<int64_t>& to) noexcept;

}  // namespace holdfast::python

namespace nanobind::detail {

template <>
struct type_caster<holdfast::Dtype> {
  NB_TYPE_CASTER(holdfast::Dtype, io_name("Dtype | str | type", "Dtype"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    const std::optional<holdfast::Dtype> found = holdfast::python::dtype_from(src);
    if (found) value = *found;
    return found.has_value();
  }
  static handle from_cpp(holdfast::Dtype dtype, rv_policy, cleanup_list*) noexcept {
    return holdfast::python::object_of(dtype).inc_ref();
  }
};

template <>
struct type_caster<holdfast::Dims> {
  NB_TYPE_CASTER(holdfast::Dims, io_name("int | collections.abc.Sequence[int]", "tuple[int, ...]"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    std::vector<int64_t> values;
    if (!holdfast::python::integers_from(src, values)) return false;
    if (values.size() > holdfast::Dims::kMaxDims) return false;
    value = holdfast::Dims(std::span<const int64_t>(values));
    return true;
  }
  static handle from_cpp(const holdfast::Dims& dims, rv_policy, cleanup_list*) noexcept {
    object made = steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    if (!made.is_valid()) return {};
    for (size_t i = 0; i < dims.size(); ++i) {
      PyObject* number = PyLong_FromLongLong(dims[i]);
      if (number == nullptr) return {};
      PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), number);
    }
    return made.release();
  }
};

template <>
struct type_caster<holdfast::Bytes> {
  NB_TYPE_CASTER(holdfast::Bytes, const_name("int"))
  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<uint64_t> number;
    if (!number.from_python(src, flags, cleanup)) return false;
    value = holdfast::Bytes{number.value};
    return true;
  }
  static handle from_cpp(holdfast::Bytes bytes, rv_policy, cleanup_list*) noexcept {
    return PyLong_FromUnsignedLongLong(bytes.value);
  }
};

template <>
struct type_caster<holdfast::On> {
  NB_TYPE_CASTER(holdfast::On, const_name("Stream | Device | str"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (src.is_none()) return true;
    try {
      if (!inst_check(src)) {
        if (!isinstance<str>(src)) return false;
        value = holdfast::On(holdfast::device(borrow<str>(src).c_str()));
      } else if (!inst_ready(src)) {
        return false;  // __init__ was not called
      } else if (isinstance<holdfast::Stream>(src)) {
        value = holdfast::On(*inst_ptr<holdfast::Stream>(src));
      } else if (isinstance<holdfast::Device>(src)) {
        value = holdfast::On(*inst_ptr<holdfast::Device>(src));
      } else {
        return false;
      }
      return true;
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
      return false;
    }
  }
};

template <>
struct type_caster<holdfast::python::ArrayLike> {
  NB_TYPE_CASTER(holdfast::python::ArrayLike, const_name("array | bool | int | float | typing.Any"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (!holdfast::python::ArrayLike::accepts(src)) return false;
    value = holdfast::python::ArrayLike(src);
    return true;
  }
};

template <>
struct type_caster<holdfast::python::Axes> {
  NB_TYPE_CASTER(holdfast::python::Axes, const_name("int | collections.abc.Sequence[int] | None"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (src.is_none()) {
      value.values.reset();
      return true;
    }
    return holdfast::python::integers_from(src, value.values.emplace());
  }
};

template <>
struct type_caster<holdfast::Size3> {
  NB_TYPE_CASTER(holdfast::Size3, const_name("tuple[int, int, int]"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    std::vector<int64_t> sizes;
    if (!holdfast::python::integers_from(src, sizes) || sizes.empty() || sizes.size() > 3) {
      return false;
    }
    uint32_t* const to[] = {&value.x, &value.y, &value.z};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || sizes[i] > int64_t{UINT32_MAX}) return false;
      *to[i] = static_cast<uint32_t>(sizes[i]);
    }
    return true;
  }
  static handle from_cpp(const holdfast::Size3& size, rv_policy, cleanup_list*) noexcept {
    return make_tuple(size.x, size.y, size.z).release();
  }
};

}  // namespace nanobind::detail
