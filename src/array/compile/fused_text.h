#pragma once

#include <optional>
#include <vector>

#include "holdfast/array/compile/fused_program.h"
#include "holdfast/array/ops/element_text.h"
#include "holdfast/kernel/definition.h"

namespace holdfast::array {

// What of a call decides the text of a program's kernel, besides the program.
struct FusedPattern {
  // Of each input that is not of a row: never a number, taken or turned.
  std::vector<Access> access;
  // For each output, the input whose memory it takes; that one is flat.
  std::vector<std::optional<size_t>> takes;
  // A thread has BLOCK elements side by side (a constant), for CPUs; of a program with rows, a row,
  // block by block. Else it has VECTOR elements (a constant); of a program with rows, LANES threads
  // share a row (a constant), in threadgroups of GROUP (a constant), see weak_groups().
  bool blocked = false;
  // Threads are in three dimensions, as for elementwise operations; never of a program with rows.
  bool in_space = false;
  friend bool operator==(const FusedPattern&, const FusedPattern&) = default;
};

// A kernel for the program: inputs x0, x1, ... that are not taken; outputs y0, y1, ..., of which
// those that take memory are in place; then outputs k0, k1, ... for what is kept between passes.
//
// Params: n0, n1, ... for numbers; `count` elements along x without rows, and `lines` along y of
// threads in space; with rows, `rows` of `length` elements, and `lines` of the next axis.
kernel::Definition fused_definition(const FusedProgram& program, const RowPasses& passes,
                                    const FusedPattern& pattern);

}  // namespace holdfast::array
