#pragma once

#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

// The kernels of scatter: y is [outer, n, inner], updates are [outer, positions, inner], and
// indices are positions along n, of the type I.
//
// A thread has all positions of one place beside the axis, so that no two threads meet and the
// order of updates is that of positions, whichever way threads run.
const Kernel& scatter_kernel();

// Many weak threads, of which each has VECTOR * PACKS elements of an inner row (see kMoveText).
//
// For updates that set, "last" is an int32[n] of -1: a first kernel writes the last position that
// sets each row, and a second moves the rows of these.
const Kernel& weak_scatter_last_kernel();
const Kernel& weak_scatter_set_kernel();
// Others are sorted by the row they change, and in the order of positions where that is the same;
// then the first of each row has all of them. Sorting takes three kernels for each eight bits,
// from the lowest: blocks of kSortBlock keys are counted by digit into a table[256, blocks]; what
// comes before each count replaces it, apart from smaller digits, which have totals[256]; keys go
// to their places, and with each its position. The kernels that read keys read indices if FIRST.
inline constexpr int64_t kSortBlock = 2048;
inline constexpr int64_t kSortDigits = 256;
inline constexpr int kSortBits = 8;
const Kernel& weak_scatter_count_kernel();
const Kernel& weak_scatter_scan_kernel();
const Kernel& weak_scatter_sort_kernel();
const Kernel& weak_scatter_sorted_kernel();

}  // namespace holdfast::array
