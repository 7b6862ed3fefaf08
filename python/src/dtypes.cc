#include <array>
#include <string>

#include "holdfast/dtypes.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

// Borrowed from the module, which lives as long as the interpreter.
std::array<PyObject*, kernel::kDtypes> objects{};

std::optional<Dtype> dtype_named(nb::handle text) {
  const nb::object held = nb::borrow(text);
  if (!nb::isinstance<nb::str>(held)) return {};
  return kernel::parse_dtype(nb::borrow<nb::str>(held).c_str());
}

}  // namespace

std::optional<Dtype> dtype_from(nb::handle object) {
  if (nb::isinstance<DtypeObject>(object)) return nb::inst_ptr<DtypeObject>(object)->dtype;
  if (object.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) return Dtype::float32;
  if (object.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return Dtype::int32;
  if (object.is(reinterpret_cast<PyObject*>(&PyBool_Type))) return Dtype::bool_;
  if (nb::isinstance<nb::str>(object)) return dtype_named(object);
  // NumPy's dtypes have a name, and its scalar types a __name__ ("bool_" before NumPy 2).
  for (const char* attribute : {"name", "__name__"}) {
    const nb::object name = nb::getattr(object, attribute, nb::none());
    if (!nb::isinstance<nb::str>(name)) continue;
    if (const auto found = dtype_named(name)) return found;
    if (nb::borrow<nb::str>(name).c_str() == std::string_view("bool_")) return Dtype::bool_;
  }
  return {};
}

nb::handle object_of(Dtype dtype) { return objects.at(static_cast<size_t>(dtype)); }

void bind_dtypes(nb::module_& m) {
  nb::class_<DtypeObject>(m, "Dtype", nb::is_final(),
                          "The type of an array's elements: hf.float32 and its like.")
      .def_prop_ro("name", [](const DtypeObject& d) { return kernel::to_string(d.dtype); })
      .def_prop_ro(
          "size", [](const DtypeObject& d) { return size_of(d.dtype); }, "Bytes of one element.")
      .def("__repr__",
           [](const DtypeObject& d) {
             return std::string("holdfast.") + kernel::to_string(d.dtype);
           })
      // The name of a global: unpickling gives the one object of the dtype.
      .def("__reduce__", [](const DtypeObject& d) {
        return std::string(d.dtype == Dtype::bool_ ? "bool_" : kernel::to_string(d.dtype));
      });
  for (unsigned i = 0; i < kernel::kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const nb::object made = nb::cast(DtypeObject{dtype});
    m.attr(dtype == Dtype::bool_ ? "bool_" : kernel::to_string(dtype)) = made;
    objects.at(i) = nb::object(made).release().ptr();
  }
  m.def("promote_types", &promote, "a"_a, "b"_a,
        "The dtype of a result that is computed from elements of both dtypes.");
}

}  // namespace holdfast::python
