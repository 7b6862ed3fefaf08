#pragma once

#include <array>

#include "holdfast/dtypes.h"
#include "holdfast/kernel/kernel.h"
#include "holdfast/operation.h"

namespace holdfast::array {

// Elements are sorted as keys: unsigned integers of their size, in the same order. Kernels see
// arrays as such integers (constant K), whatever the dtype is, so there are few variants.
Dtype key_type(Dtype dtype);
Operand as_keys(const Operand& operand);
// What key_of() needs to know: "kind" and "mantissa".
std::array<kernel::Param, 2> key_params(Dtype dtype);
// For the header: key_of<kEqual>(bits, kind, mantissa), and bits_of(key, kind), the element.
// kEqual: all NaN have one key, and so have both zeros; their bits do not come back.
extern const char* const kKeyText;

// What a sort hands on: keys, or places (positions along the axis), or both.
enum class Sorted : uint8_t { keys, places, both };

// A row of a result has `total` elements, `inner` apart; rows lie as they follow from that. A row
// is made of runs, each of `run` elements but for the last.
//
// First step: input "x", with the axis last; outputs "keys", "places". Each block of BLOCK elements
// becomes a run, of which the first `run` elements stay. Constants: K, BLOCK. Params: those of
// key_params(), "descending", "as_elements" (keys become elements again; not if places are the only
// result), "length", "blocks", "run", "total", "inner". A thread has a block, or (weak) a
// threadgroup has; its BLOCK is 1024, and param "size" is the power of two that is sorted.
const Kernel& sort_blocks_kernel(Sorted results);
const Kernel& weak_sort_blocks_kernel(Sorted results);

// Later steps: inputs "from_keys" and (unless keys are the only result) "from_places", rows of runs
// without a gap. Two neighbouring runs become one, of which the first `run` elements stay. Constant
// K. Params: "kind", "descending", "as_elements", "from_runs", "from_run", "from_last" (the length
// of the last run), "pairs", "run", "total", "inner", "pieces" (of each pair). A thread has a piece
// of kMergePiece elements of the result, a threadgroup has one of kWeakMergePiece.
inline constexpr int64_t kMergePiece = 4096;
inline constexpr int64_t kWeakMergePiece = 1024;
const Kernel& sort_merge_kernel(Sorted results);
const Kernel& weak_sort_merge_kernel(Sorted results);

}  // namespace holdfast::array
