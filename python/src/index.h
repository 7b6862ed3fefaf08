#pragma once

#include "python/src/bindings.h"

namespace holdfast::python {

// x[key] as NumPy has it: integers, slices, None, Ellipsis, arrays of integers and of bool. A key
// without arrays gives a view. An array of bool is evaluated, since the result's shape depends on
// it. Positions in arrays that are out of range give zero (NaN for floats).
Array get_item(const Array& x, nb::handle key);

// The array that x[key] = value leaves. With `how` other than Update::set, the elements are updated
// instead of replaced; positions that occur several times are then updated several times.
Array set_item(Array x, nb::handle key, const ArrayLike& value, Update how = Update::set);

}  // namespace holdfast::python
