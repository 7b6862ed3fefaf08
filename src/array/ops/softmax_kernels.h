#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of softmax: an input "x" with the axis last, and an output "y" in which its elements
// are "y_step" (a param) apart. Constants: A, what is computed in; R, the type of y; HALF: x is
// float16, bound as bits.
//
// A row of long ones is cut into pieces of "piece_length" (a param): a first kernel writes the
// largest element and the sum of each to "largests" and "sums", and a second has them as inputs.
//
// Of few strong threads each has a row or a piece, or (columns) up to 32 rows that lie side by
// side.
const Kernel& softmax_rows_kernel();
const Kernel& softmax_columns_kernel();
const Kernel& softmax_pieces_kernel();
const Kernel& softmax_join_kernel();
// Of many weak threads LANES, a constant, have what a strong thread has, in packs of VECTOR
// elements (see weak_groups() for groups). More constants: DENSE, elements lie side by side in x
// and y; EVEN, all rows are equally far apart in x; X, the type of x; POWERS, that is A, and powers
// take the place of elements in registers (beside threadgroup memory there are too few of those).
// Short rows: up to 32 LANES have a row, PACKS packs each; the param "rows".
// Other rows and pieces have a threadgroup each, and the param "piece_length". Of a row each thread
// has PACKS packs in registers and KEPT packs in threadgroup memory; AGAIN: there are more, which
// are read twice. GROUPS: threadgroups for which a multiprocessor should have registers.
// For columns there is the constant HEIGHT instead, the simdgroups of a threadgroup.
const Kernel& weak_softmax_short_rows_kernel();
const Kernel& weak_softmax_rows_kernel();
const Kernel& weak_softmax_columns_kernel();
const Kernel& weak_softmax_pieces_kernel();
const Kernel& weak_softmax_join_kernel();

}  // namespace holdfast::array
