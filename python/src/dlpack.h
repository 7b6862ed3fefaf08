#pragma once

#include "python/src/bindings.h"

namespace holdfast::python {

// The elements of an object with __dlpack__: copied (`copy` true), in its own memory (false), or in
// its own memory where that is possible (none). BufferError for memory that is not the host's, for
// elements that no dtype has, and where a copy is needed and not allowed.
Array import_dlpack(nb::handle object, std::optional<bool> copy, const On& on);

}  // namespace holdfast::python
