#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of matmul. Those that take "a" [batch..., M, K] and "b" [batch..., K, N] as they lie
// have the constants A, what is computed in, R, the type of the output "c", and A_HALF and B_HALF:
// whether the operand is float16, bound as bits.

// Few strong threads. Of a small product a thread has up to 64 columns of a row, and c has any
// strides: params "c_batch", "c_row", "c_column".
const Kernel& matmul_rows_kernel();
// Of a large one the operands become panels first; a thread has ROWS rows of COLUMNS columns.
const Kernel& matmul_pack_kernel();
const Kernel& matmul_tiles_kernel();

// Many weak threads: see weak_groups(). A threadgroup of kWeakTile has 32 columns of a row, with
// the params of matmul_rows_kernel(); one of kWeakLine has 64 rows of 64 columns, and c is
// row-contiguous.
const Kernel& weak_matmul_rows_kernel();
const Kernel& weak_matmul_tiles_kernel();

}  // namespace holdfast::array
