#pragma once

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// CUDA C++: see generate().
//
// How a generated kernel is launched; a device that runs them keeps to it.
//
// Arguments: a pointer for each binding; with checked bounds then the bytes of each, as 64-bit
// numbers; then the parameter bytes of the Interface, by value.
//
// Blocks are threadgroups: blockDim is LaunchBlock::group, and blockIdx + first_group the
// threadgroup's position. At the edges of the grid a block has more threads than the grid. Those
// return at once, so one dispatch is enough for Cooperation::none and groups. With barriers it is
// enough for grids of one dimension, where the threads that stay are the first of their block, in
// whole warps but for the last; other grids are dispatched in parts, each of blocks of one size
// that are whole: blockDim is then that size, and the LaunchBlock the same but for first_group.
//
// The block may have as many threads as the function allows (its attribute
// MAX_THREADS_PER_BLOCK), which depends on its registers.
GeneratedKernel cuda_text(const Definition& definition, const CallSignature& signature,
                          const GenerateOptions& options = {});

}  // namespace holdfast::kernel
