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
// Blocks are threadgroups: blockDim is LaunchBlock::block, and blockIdx + first_group the
// threadgroup's position. At the edges of the grid a block may have more threads than the grid.
// Those return at once, so one dispatch is enough for Cooperation::none and groups. With barriers,
// the threads that stay must be the first of their block, in whole warps but for the last. One
// dispatch does that where the grid ends inside a block along the last axis only, of those along
// which a block has more than one thread. Other grids are dispatched in parts that have it so:
// along the axes before, blockDim is the group's size, or at the edge what is left of it, and
// LaunchBlock::group always the group's size.
//
// With `grids_may_overlap`, a body without loops waits for the grids before it, first of all, and
// its Interface says so: it may be launched while those still end. What they write is then not
// read-only while the kernel lives, so that its inputs are no __restrict__ pointers, which the
// compiler would read past the coherent caches and ahead of the wait. Loops gain more from those
// than an earlier launch saves.
//
// The block may have as many threads as the function allows (its attribute
// MAX_THREADS_PER_BLOCK), which depends on its registers. A header that knows how large its
// threadgroups are may define GROUP_BOUNDS, as __launch_bounds__() of that: the compiler then sees
// to it that registers do.
GeneratedKernel cuda_text(const Definition& definition, const CallSignature& signature,
                          const GenerateOptions& options = {});

}  // namespace holdfast::kernel
