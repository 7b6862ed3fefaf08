#include <array>
#include <string>
#include <typeinfo>

#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

struct ErrorClass {
  ErrorCode code;
  const char* name;
  PyObject* also;  // the built-in exception that it is, too
  const char* doc;
};

constexpr size_t kCodes = 9;
// Indexed by ErrorCode. Never released: a runtime's error may come at any time.
std::array<PyObject*, kCodes> classes{};

nb::object make_class(const nb::module_& m, const char* name, const nb::object& bases,
                      const char* doc) {
  const std::string full = nb::cast<std::string>(m.attr("__name__")) + "." + name;
  nb::object made = nb::steal(PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  m.attr(name) = made;
  return made;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyErr_SetString(classes.at(static_cast<size_t>(error.code())), error.what());
  } catch (const std::bad_cast&) {
    // What nb::cast throws inside a call whose own arguments were right.
    PyErr_SetString(PyExc_TypeError,
                    "an argument contains a value of another type, or a number out of range");
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  const nb::object base =
      make_class(m, "Error", nb::borrow(PyExc_RuntimeError),
                 "What Holdfast raises: it says what happened, to what, and what to do.");
  const ErrorClass all[] = {
      {ErrorCode::usage, "UsageError", PyExc_ValueError,
       "The call asks for something that is not allowed, or a kernel does not compile."},
      {ErrorCode::unsupported, "UnsupportedError", nullptr, "The device cannot do it."},
      {ErrorCode::out_of_memory, "OutOfMemoryError", PyExc_MemoryError,
       "No memory within the limits, after everything that could be freed was freed."},
      {ErrorCode::execution, "ExecutionError", nullptr, "A command failed on the device."},
      {ErrorCode::device_lost, "DeviceLostError", nullptr, "The device is gone."},
      {ErrorCode::closed, "ClosedError", nullptr, "The device was closed before the work ran."},
      {ErrorCode::timeout, "TimeoutError", PyExc_TimeoutError,
       "A wait reached its time limit. Nothing is lost; wait again."},
      {ErrorCode::interrupted, "InterruptedError", nullptr,
       "A wait was interrupted. Nothing is lost; wait again."},
      {ErrorCode::environment, "EnvironmentError", PyExc_OSError,
       "A variable, a file or another part of the surroundings is not as it should be."},
  };
  for (const ErrorClass& c : all) {
    const nb::object bases =
        c.also != nullptr ? nb::object(nb::make_tuple(base, nb::handle(c.also))) : base;
    classes.at(static_cast<size_t>(c.code)) = make_class(m, c.name, bases, c.doc).release().ptr();
  }
  nb::register_exception_translator(translate);
}

}  // namespace holdfast::python
