#pragma once

#include "holdfast/operation.h"

namespace holdfast::array {

// Records out = a x b, for operations that have a matrix product in them: a [batch..., M, K],
// b [batch..., K, N] in any layout, of any floats, with batches that stretch to `batch`; out
// [batch..., M, N]. Computed in float32, or float64 where out has that.
void record_matmul(Encoder& encoder, const Operand& a, const Operand& b, const Shape& batch,
                   const Operand& out);

}  // namespace holdfast::array
