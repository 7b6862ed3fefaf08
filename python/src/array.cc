#include "holdfast/array.h"

#include <string>

#include "holdfast/ops.h"
#include "holdfast/views.h"
#include "python/src/bindings.h"
#include "python/src/buffer.h"
#include "python/src/convert.h"
#include "python/src/elements.h"
#include "python/src/index.h"

namespace holdfast::python {
namespace {

std::vector<std::byte> bytes_of(const Array& array) {
  std::vector<std::byte> bytes(array.nbytes().value);
  without_gil([&, held = array](const WaitLimit& limit) { held.copy_to(bytes, limit); });
  return bytes;
}

template <typename T>
nb::object number_of(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return nb::bool_(value);
  } else if constexpr (std::is_integral_v<T>) {
    return nb::int_(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return nb::float_(value);
  } else {
    return nb::float_(static_cast<double>(static_cast<float>(value)));
  }
}

template <typename T>
nb::object nested(const T*& at, std::span<const int64_t> shape) {
  if (shape.empty()) return number_of<T>(*at++);
  nb::list made;
  for (int64_t i = 0; i < shape[0]; ++i) made.append(nested(at, shape.subspan(1)));
  return made;
}

nb::object to_list(const Array& array) {
  const std::vector<std::byte> bytes = bytes_of(array);
  return with_element_type(array.dtype(), [&]<typename T>() {
    const T* at = reinterpret_cast<const T*>(bytes.data());
    return nested(at, array.shape().span());
  });
}

nb::object item_of(const Array& array) {
  if (array.size() != 1) {
    throw nb::value_error(
        ("item() needs an array of one element, not of shape " + to_string(array.shape())).c_str());
  }
  const std::vector<std::byte> bytes = bytes_of(array);
  return with_element_type(array.dtype(), [&]<typename T>() {
    return number_of<T>(*reinterpret_cast<const T*>(bytes.data()));
  });
}

std::string shown(const Array& array) {
  return without_gil([held = array](const WaitLimit& limit) {
    held.eval(limit);
    return to_string(held);
  });
}

nb::object to_numpy(nb::handle self, const nb::object& dtype, std::optional<bool> copy_it) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const Array array = nb::cast<Array>(self);
  // NumPy lacks bfloat16; float32 has all its values.
  const bool widen = array.dtype() == Dtype::bfloat16;
  const nb::object source = widen ? nb::cast(astype(array, Dtype::float32)) : nb::borrow(self);
  nb::object made = numpy.attr("asarray")(nb::steal(PyMemoryView_FromObject(source.ptr())));
  const bool other = !dtype.is_none() && !made.attr("dtype").equal(numpy.attr("dtype")(dtype));
  if (copy_it && !*copy_it && (widen || other)) {
    throw nb::value_error("another dtype needs a copy");
  }
  if (other) return made.attr("astype")(dtype);
  return copy_it.value_or(false) && !widen ? nb::object(made.attr("copy")()) : made;
}

nb::object reduced(const Array& array) {
  const std::vector<std::byte> bytes = bytes_of(array);
  return nb::make_tuple(
      nb::module_::import_("holdfast._more").attr("_rebuild"),
      nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), array.dtype(), array.shape()));
}

// x.at[key].add(v) and its like.
struct At {
  Array array;
};
struct AtKey {
  Array array;
  nb::object key;
};

void bind_at(nb::module_& m, ArrayClass& c) {
  nb::class_<At>(m, "At", "What x.at is: index it, then update.")
      .def(
          "__getitem__",
          [](const At& at, const nb::object& key) {
            return AtKey{at.array, key};
          },
          nb::arg().none());
  nb::class_<AtKey> key(m, "AtKey", "What x.at[key] is: its methods return updated arrays.");
  const auto update = [&key](const char* name, Update how, const char* doc) {
    key.def(
        name,
        [how](const AtKey& at, const ArrayLike& value) {
          return set_item(at.array, at.key, value, how);
        },
        "value"_a, doc);
  };
  update("set", Update::set, "With these elements replaced");
  update("add", Update::add, "With the value added, once for each time a position occurs");
  update("multiply", Update::multiply, "With these elements multiplied by the value");
  update("maximum", Update::max, "With the larger of element and value");
  update("minimum", Update::min, "With the smaller of element and value");
  key.def(
      "subtract",
      [](const AtKey& at, const ArrayLike& value) {
        const Array by = negative(to_array(value.object(), at.array.dtype(), at.array.device()));
        return set_item(at.array, at.key, ArrayLike(nb::cast(by)), Update::add);
      },
      "value"_a, "With the value subtracted");
  c.def_prop_ro(
      "at", [](const Array& a) { return At{a}; }, "x.at[key].add(v): an updated array.");
}

void bind_properties(ArrayClass& c) {
  c.def_prop_ro("dtype", [](const Array& a) { return a.dtype(); })
      .def_prop_ro("shape", [](const Array& a) { return a.shape(); })
      .def_prop_ro("strides", &Array::strides, "In elements.")
      .def_prop_ro("ndim", &Array::ndim)
      .def_prop_ro("size", &Array::size)
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro("itemsize", [](const Array& a) { return size_of(a.dtype()); })
      .def_prop_ro(
          "T", [](const Array& a) { return transpose(a); }, "Axes reversed.")
      .def_prop_ro(
          "mT",
          [](const Array& a) {
            if (a.ndim() < 2) throw nb::value_error("mT needs an array with two axes or more");
            return swap_axes(a, -1, -2);
          },
          "The last two axes exchanged.")
      .def_prop_ro("device", &Array::device)
      .def_prop_ro("stream", &Array::stream)
      .def_prop_rw(
          "name", &Array::name,
          [](const Array& a, std::string name) { a.set_name(std::move(name)); },
          "Appears in errors and reports; the first name stays.")
      .def_prop_ro("is_recorded", &Array::is_recorded,
                   "Whether its work was recorded (it may still be running) or failed.");
}

void bind_conversions(ArrayClass& c) {
  c.def("item", &item_of, nb::sig("def item(self) -> bool | int | float"),
        "The element of an array of one element. Waits for it.")
      .def("tolist", &to_list, nb::sig("def tolist(self) -> typing.Any"),
           "The elements as nested lists. Waits for them.")
      .def(
          "tobytes",
          [](const Array& a) {
            const std::vector<std::byte> bytes = bytes_of(a);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The elements' bytes in row-major order. Waits for them.")
      .def(
          "eval",
          [](const Array& a, std::optional<double> timeout) {
            without_gil([held = a](const WaitLimit& limit) { held.eval(limit); }, timeout);
          },
          "timeout"_a = nb::none(), "Computes the array and waits for it alone.")
      .def(
          "to", [](const Array& a, const Device& device) { return a.to(device); }, "device"_a,
          "The same elements on another device; lazy, like any other operation.")
      .def(
          "to", [](const Array& a, const std::string& name) { return a.to(device(name)); },
          "device"_a)
      .def(
          "to_device", [](const Array& a, const Device& device) { return a.to(device); },
          "device"_a, "As to().")
      .def("__array__", &to_numpy, "dtype"_a = nb::none(), nb::kw_only(), "copy"_a = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, *, copy: bool | None = None) "
                   "-> typing.Any"))
      .def("__reduce__", &reduced)
      .def("__copy__", [](const Array& a) { return a; })
      .def(
          "__deepcopy__", [](const Array& a, const nb::object&) { return a; },
          nb::arg("memo").none())
      .def("__repr__", &shown)
      .def("__bool__", [](const Array& a) { return nb::bool_(item_of(a)); })
      .def("__int__", [](const Array& a) { return nb::int_(item_of(a)); })
      .def("__float__", [](const Array& a) { return nb::float_(item_of(a)); })
      .def("__index__", [](const Array& a) {
        if (is_floating(a.dtype()) || a.dtype() == Dtype::bool_ || a.ndim() != 0) {
          throw nb::type_error("only an integer array without axes can be an index");
        }
        return nb::int_(item_of(a));
      });
  // NumPy's operators leave arrays to ours: np.ones(3) + x is an array.
  c.attr("__array_priority__") = 1000;
}

void bind_indexing(ArrayClass& c) {
  c.def(
       "__getitem__", [](const Array& a, const nb::object& key) { return get_item(a, key); },
       nb::arg().none())
      .def(
          "__setitem__",
          [](Array& a, const nb::object& key, const ArrayLike& value) {
            a = set_item(a, key, value);
          },
          nb::arg().none(), nb::arg())
      .def("__len__",
           [](const Array& a) {
             if (a.ndim() == 0) throw nb::type_error("an array without axes has no len()");
             return a.shape()[0];
           })
      .def(
          "__iter__",
          [](nb::handle self) {
            if (nb::cast<Array>(self).ndim() == 0) {
              throw nb::type_error("an array without axes cannot be iterated");
            }
            return nb::steal(PySeqIter_New(self.ptr()));
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[array]"));
}

}  // namespace

ArrayClass bind_array(nb::module_& m) {
  ArrayClass c(m, "array", nb::is_weak_referenceable(), nb::type_slots(buffer_slots().data()),
               "A lazy array of numbers. Nothing is computed until it is evaluated.");
  c.def(
      "__init__",
      [](Array* self, const ArrayLike& val, std::optional<Dtype> dtype, const On& on) {
        new (self) Array(to_array(val.object(), dtype, on));
      },
      "val"_a, "dtype"_a = nb::none(), nb::kw_only(), "stream"_a = nb::none(),
      "An array of numbers, nested lists, or the elements of another array, which are copied.");
  bind_properties(c);
  bind_conversions(c);
  bind_indexing(c);
  bind_at(m, c);
  m.def(
      "_from_bytes",
      [](const nb::bytes& bytes, Dtype dtype, const Shape& shape) {
        const std::span data(static_cast<const std::byte*>(bytes.data()), bytes.size());
        return without_gil([&](const WaitLimit&) { return Array(dtype, shape, data); });
      },
      "bytes"_a, "dtype"_a, "shape"_a);
  return c;
}

}  // namespace holdfast::python
