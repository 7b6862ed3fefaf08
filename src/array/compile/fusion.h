#pragma once

#include <span>
#include <string>
#include <vector>

#include "holdfast/array/compile/trace.h"
#include "holdfast/hal/device_info.h"

namespace holdfast::array {

// What the function of a trace returned, computed by fewer nodes: elementwise operations, and with
// them reductions and softmax along the last axis, become nodes that do the work of several in one
// kernel. All other nodes stay as they are, with what came of their inputs. The new nodes are of
// the old ones' streams and keep the names of results.
//
// Elementwise results have the same bits: each step is rounded to its dtype. Sums of rows may
// differ in rounding.
//
// A group is one kernel. A node joins the group of one of its inputs if elements are read where
// that group computes them, if there is no way from one to the other through a node outside, and if
// the kernel stays within its limits. What others need of a group is a result of its node.
struct Fused {
  std::vector<Array> results;
  // For people: what became one kernel, and why reductions stayed alone. A sentence each.
  std::vector<std::string> notes;
  size_t kernels = 0;     // nodes that were made
  size_t operations = 0;  // of those they do the work of
};
Fused fuse(const Trace& trace);

}  // namespace holdfast::array
