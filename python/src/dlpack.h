#pragma once

#include "python/src/bindings.h"

namespace holdfast::python {

// The elements of an object with __dlpack__: copied (`copy` true), in its own memory (false), or in
// its own memory where that is possible (none). Memory of a GPU becomes an array on that GPU, which
// waits there for the producer's work; a copy of it waits here. BufferError for memory of other
// kinds, for elements that no dtype has, and where a copy is needed and not allowed.
Array import_dlpack(nb::handle object, std::optional<bool> copy, const On& on);

}  // namespace holdfast::python
