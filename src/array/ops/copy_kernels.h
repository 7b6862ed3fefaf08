#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of copies between layouts: an input "x", an output "y", of one shape; "flip" has a
// bit for each axis that x walks backwards.

// Any layouts: a thread for each element, x along the last axis and y along all others.
const Kernel& copy_kernel();

// CPUs. x has the elements of the last axis but one side by side, y those of the last: a thread has
// a square of both, of SIDE elements of the type T along each; z along all other axes.
const Kernel& square_copy_kernel();

// Many weak threads. Both have the elements of the last axis side by side: a thread has VECTOR of
// them, of `count`; y and z along all `rows`, of which there are `rows_y` along y.
const Kernel& weak_copy_rows_kernel();
// x has those of the last axis but one side by side, y those of the last: a threadgroup (kWeakTile,
// see weak_groups) has a square of both, with WIDE elements for each lane, of the type T.
const Kernel& weak_copy_turned_kernel();

// One value for all elements of "y", a thread for each.
const Kernel& fill_kernel();

}  // namespace holdfast::array
