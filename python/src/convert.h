#pragma once

#include <optional>

#include "python/src/casters.h"

namespace holdfast::python {

// An array of the object's elements; see ArrayLike. The elements are copied, unless the object is
// an array already. TypeError for objects that are none of these, ValueError for lists whose parts
// differ in length.
Array to_array(nb::handle object, std::optional<Dtype> dtype = {}, const On& on = {});

// The same, sharing memory where that is allowed (`copy` false: or raising ValueError). Memory that
// Python may still write to is shared only if `copy` is false: the caller promises that nobody
// writes.
Array as_array(nb::handle object, std::optional<Dtype> dtype, std::optional<bool> copy,
               const On& on = {});

// A number of Python or NumPy as an argument of a kernel. TypeError for anything else.
Scalar to_scalar(nb::handle object);

}  // namespace holdfast::python
