#include "holdfast/eval.h"

#include "holdfast/npy.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

// The arrays in nested tuples, lists and dicts. Copies: another thread may assign to the objects
// while these are evaluated.
void collect(std::vector<Array>& arrays, nb::handle tree) {
  if (const Array* a = array_in(tree)) {
    arrays.push_back(*a);
  } else if (PyTuple_Check(tree.ptr()) || PyList_Check(tree.ptr())) {
    for (const nb::handle item : nb::borrow(tree)) collect(arrays, item);
  } else if (PyDict_Check(tree.ptr())) {
    for (const auto& [key, value] : nb::borrow<nb::dict>(tree)) collect(arrays, value);
  } else if (!tree.is_none() && PyLong_Check(tree.ptr()) == 0 && PyFloat_Check(tree.ptr()) == 0 &&
             PyUnicode_Check(tree.ptr()) == 0) {
    throw nb::type_error("eval takes arrays, and tuples, lists and dicts of arrays");
  }
}

std::vector<Array> collected(const nb::args& trees) {
  drain_tasks();
  std::vector<Array> arrays;
  collect(arrays, trees);
  return arrays;
}

}  // namespace

void bind_evaluation(nb::module_& m) {
  m.def(
      "eval",
      [](const nb::args& arrays, std::optional<double> timeout) {
        const std::vector<Array> all = collected(arrays);
        without_gil([&](const WaitLimit& limit) { eval(all, limit); }, timeout);
      },
      "arrays"_a, "timeout"_a = nb::none(),
      nb::sig("def eval(*arrays: typing.Any, timeout: float | None = None) -> None"),
      "Computes arrays, given alone or in tuples, lists and dicts, and waits for them alone.");
  m.def(
      "async_eval",
      [](const nb::args& arrays) {
        const std::vector<Array> all = collected(arrays);
        without_gil([&](const WaitLimit&) { async_eval(all); });
      },
      "arrays"_a, nb::sig("def async_eval(*arrays: typing.Any) -> None"),
      "Records and submits what the arrays need, and returns at once.");
  m.def(
      "_save_npy",
      [](const std::string& path, const Array& array) {
        without_gil([&path, held = array](const WaitLimit& limit) {
          held.eval(limit);
          save_npy(path, held);
        });
      },
      "path"_a, "array"_a);
  m.def(
      "_load_npy",
      [](const std::string& path, const On& on) {
        return without_gil([&](const WaitLimit&) { return load_npy(path, on); });
      },
      "path"_a, "stream"_a = nb::none());
}

}  // namespace holdfast::python
