#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of cumsum and cumprod: one input "x" with the axis last, and one output "y", with
// elements of the axis `inner` apart and rows as they follow from that. A piece is a part of the
// axis, in the order in which it is walked. Where there are pieces, a first kernel writes what each
// comes to ("totals": [row, piece]), and the scan gets what stands before each ("starts", the
// same).
//
// Constants: A, what is computed in; R, the type of y; HALF: x is float16, bound as bits; PRODUCT.
// Params: "length" of the axis, "piece_length", "pieces", "reverse"; for the scan also "inner" and
// "exclusive".
//
// A thread has one row, or (constant WIDE, 32 instead of 1) up to so many rows that lie side by
// side, in x and in y. Both styles use it.
const Kernel& scan_kernel(bool started);
const Kernel& scan_totals_kernel();
// A threadgroup of many weak threads has a row. See weak_groups().
const Kernel& weak_scan_kernel(bool started);
const Kernel& weak_scan_totals_kernel();

}  // namespace holdfast::array
