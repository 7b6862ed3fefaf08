#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// Kernels of scaled_dot_product_attention. All have the input "mask", with four axes: [batch,
// heads, queries, keys]. Constants: A, what is computed in; R, the dtype. Params: "queries" and
// "keys": how many; "mask_kind": 0 none (something is bound in its place, which nothing reads), 1
// bool, 2 numbers that are added; "causal".

// Few queries: inputs "q", "k" and "v" of four axes, with any layout. A row is a query of a head; a
// piece is a part of the keys. Outputs: "y", [row, piece, VALUES]; and "stats", [row, piece, 2]:
// the largest product, and what weights relative to it come to. If there is one piece (constant
// WHOLE), y is the result and "stats" is not used. Constants: HALF: q, k and v are float16, bound
// as bits; WIDTH, VALUES: the last axes of keys and values. Params: "heads", "sharing" (heads of
// one key head), "piece_length", "scale".
//
// A thread has a row and piece, or a threadgroup of many weak threads has.
const Kernel& attention_kernel();
const Kernel& weak_attention_kernel();
// Joins pieces: inputs "parts" and "stats", output "y", [row, VALUES]. A thread has an element.
// Constants: A, R, VALUES; param "pieces".
const Kernel& attention_join_kernel();

// Many queries: weights of products that were computed before, in place: "scores", [row, keys].
const Kernel& attention_weights_kernel();
const Kernel& weak_attention_weights_kernel();

}  // namespace holdfast::array
