#include "holdfast/version.h"
#include "python/src/bindings.h"

NB_MODULE(_core, m) {
  namespace hp = holdfast::python;
  m.doc() = "The compiled part of holdfast. Import holdfast instead.";
  // Arrays that live as long as the process are no error.
  nanobind::set_leak_warnings(false);
  m.attr("_version") = nanobind::make_tuple(holdfast::kVersionMajor, holdfast::kVersionMinor,
                                            holdfast::kVersionPatch);
  hp::bind_gil(m);
  hp::bind_errors(m);
  hp::bind_dtypes(m);
  hp::bind_stats(m);
  hp::bind_devices(m);
  hp::ArrayClass array = hp::bind_array(m);
  hp::bind_operators(array);
  hp::bind_operations(m, array);
  hp::bind_arrangements(m, array);
  hp::bind_sorting(m, array);
  hp::bind_fast(m);
  hp::bind_creation(m);
  hp::bind_evaluation(m);
  hp::bind_kernels(m);
  hp::bind_compile(m);
  hp::bind_dlpack(m, array);
}
