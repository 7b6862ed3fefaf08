#pragma once

#include <nanobind/nanobind.h>

#include "python/src/casters.h"
#include "python/src/gil.h"

namespace holdfast::python {

using namespace nb::literals;  // NOLINT(google-build-using-namespace): "name"_a

using ArrayClass = nb::class_<Array>;

// Each adds its part to the module.
void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_stats(nb::module_& m);
// The class `array`, with its methods; those that operations share come from bind_operations.
ArrayClass bind_array(nb::module_& m);
void bind_operators(ArrayClass& c);
void bind_operations(nb::module_& m, ArrayClass& c);
void bind_arrangements(nb::module_& m, ArrayClass& c);
void bind_sorting(nb::module_& m, ArrayClass& c);
void bind_fast(nb::module_& m);
void bind_creation(nb::module_& m);
void bind_evaluation(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_dlpack(nb::module_& m, ArrayClass& c);

}  // namespace holdfast::python
