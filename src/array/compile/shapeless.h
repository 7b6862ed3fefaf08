#pragma once

#include <span>
#include <vector>

#include "holdfast/array/compile/trace.h"

namespace holdfast::array {

// What the function of a trace would have returned for arguments of other lengths, with as many
// axes: each of its operations again, on what came of its inputs. The placeholders stand for these
// arguments, and are row-contiguous, as those of the trace are.
//
// UsageError names the operation, or the view, that does not say what becomes of it, and lengths
// that do not fit together. Views may exchange axes, and insert and drop those of length 1.
std::vector<Array> results_for_lengths(const Trace& trace, std::span<const Array> placeholders);

}  // namespace holdfast::array
