#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of quantized_matmul and quantize, for weights of four bits, eight in a word.
// Constants: A, what is computed in; R, the type of the output "y"; GROUP, the size of a group.
// Params: "depth", and "columns" of y where its name says so.

// Few strong threads. Words lie in blocks of LANES (fewer in the last of a row). Kernels take the
// same value of all words of a block at once: that is a shift of a vector.
//
// Weights grouped along depth: x goes into the order of blocks first, with the sums of its groups;
// then a thread has one result.
const Kernel& quantized_order_kernel();
const Kernel& quantized_rows_kernel();
// Grouped along the columns: a thread has those of one block.
const Kernel& quantized_columns_kernel();

// Many weak threads, in groups of kWeakTile: see weak_groups(). HALF: x is float16, bound as bits.
// Weights grouped along depth, with params "rows", "columns": a simdgroup has ROWS rows of a
// column. Or, for float16 and bfloat16, bound as bits and computed in float32: a threadgroup of
// HIGH simdgroups has 8 * TALL rows of 16 * WIDE columns, by products of matrices of T, and reads
// weights into a ring of STAGES, each for DEEP * 64 bytes of a column. Grouped along the columns: a
// threadgroup has those of 32 words.
const Kernel& weak_quantized_rows_kernel();
const Kernel& weak_quantized_tiles_kernel();
const Kernel& weak_quantized_columns_kernel();

// For all threads: the weights as numbers, WORDS words a thread; and back, a group a thread.
const Kernel& dequantize_kernel();
const Kernel& quantize_kernel();

}  // namespace holdfast::array
