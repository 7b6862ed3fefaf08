#pragma once

#include "python/src/bindings.h"

namespace holdfast::python {

// An array in the memory of an object with __dlpack__, without a copy where that is possible.
// BufferError for memory that is not the host's, and for elements that no dtype has.
Array import_dlpack(nb::handle object, const On& on);

}  // namespace holdfast::python
