#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of sum, prod, mean, all, any, max and min: one input "x", with the kept axes first,
// and one output "y", [piece, kept]. Constants: A, what is computed in; R, the type of y; OP: 0 for
// sums, 1 for the largest, 2 for the smallest, 3 for products; HALF: x is float16, bound as bits.
// Params: "kept", the number of kept axes of x; "divisor" of the sum.
//
// Of few strong threads each has a result, or (columns) up to 32 that lie side by side, as their
// elements do. A piece is a part of the last axis and a part of the reduced ones before it: params
// "outer_count", "outer_length", "inner_pieces", "inner_length".
const Kernel& reduce_rows_kernel();
const Kernel& reduce_columns_kernel();
// Of many weak threads a threadgroup has several results, each of a row of elements that lie side
// by side: see WeakRows, also for y, constants and params, where "kept" is not among them.
const Kernel& weak_reduce_rows_kernel(bool is_short);
// Or it has WIDE * VECTOR that lie side by side, as their elements do; constants WIDE, a power of
// two up to 32, VECTOR up to 8, and ONE: one axis is reduced. Or it has one, of elements that lie
// anywhere. A piece is a part of all reduced elements: params "count", "piece_length". See
// weak_groups().
const Kernel& weak_reduce_columns_kernel();
const Kernel& weak_reduce_apart_kernel();

}  // namespace holdfast::array
