#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Records all that these arrays need and submits it; returns at once. Any thread may evaluate any
// array, also overlapping graphs at the same time: each node is recorded once. What does not depend
// on a failure is recorded; then the failure of the first array that has one is raised. Nodes are
// recorded as they depend on each other, independent ones beside each other, and submitted early:
// see SubmitLimits. Where memory is short they are recorded depth first instead, one after the
// other, so that as little as possible is needed at a time.
//
// A node that failed stays failed: build it again to try again. A node for which there is no memory
// has not failed: OutOfMemoryError is raised where it does not fit depth first either, and the node
// and all that depends on it stay as they were. Free something, or raise the limit, and evaluate
// the same arrays again.
//
// Waits, all accounted, only where the runtime's budget asks for it, or for another task that is
// recording a node that is needed here. InterruptedError from such a wait leaves what is not
// recorded yet as it was.
void async_eval(std::span<const Array> arrays);
// The same, then waits for these arrays and nothing else. Raises the failure of the first one. The
// limit is for this wait and for other tasks that are recording; not for compiling or the budget.
void eval(std::span<const Array> arrays, const WaitLimit& limit = {});

template <std::same_as<Array>... More>
void async_eval(const Array& first, const More&... more) {
  const Array all[] = {first, more...};
  async_eval(std::span<const Array>(all));
}
template <std::same_as<Array>... More>
void eval(const Array& first, const More&... more) {
  const Array all[] = {first, more...};
  eval(std::span<const Array>(all));
}

}  // namespace holdfast

#pragma GCC visibility pop
