#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Records everything these arrays need, submits it, and returns at once. Any thread may evaluate
// any array, and overlapping graphs may be evaluated at the same time: each node is recorded once.
// Everything that does not depend on a failure is recorded; then the failure of the first failed
// array is raised. Independent nodes are recorded beside each other and submitted early: see
// SubmitLimits. If memory is short, nodes are recorded depth first instead, one after the other, so
// that as little memory as possible is needed at a time.
//
// A failed node stays failed: build it again to try again. A node that finds no memory has not
// failed. If it does not fit depth first either, OutOfMemoryError is raised, and the node and
// everything that depends on it stay as they were. Free something, or raise the limit, and evaluate
// the same arrays again.
//
// Waits only for the runtime's budget, or for another task that is recording a node needed here;
// all these waits are accounted. An InterruptedError from such a wait leaves nodes that are not
// recorded yet as they were.
void async_eval(std::span<const Array> arrays);
// Does the same, then waits for these arrays and nothing else. Raises the failure of the first
// failed one. The limit covers this wait and waits for other tasks that are recording, but not
// compiling or the budget.
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
