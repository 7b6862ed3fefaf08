#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "holdfast/array/ops/element_text.h"
#include "holdfast/array/ops/elementwise.h"
#include "holdfast/kernel/kernel.h"

namespace holdfast::array {

inline constexpr size_t kMaxOperands = 3;

// What of a call decides a kernel's text.
struct Pattern {
  struct Source {
    Access access = Access::number;
    uint8_t input = 0;  // which one, of all that are no numbers
  };
  std::array<Source, kMaxOperands> operands{};
  uint8_t count = 0;     // of operands
  bool chooses = false;  // the first operand is a bool in the text
  // Threads are in three dimensions, x along the last axis and z along all but the last two; of
  // inputs shape and strides matter, of three axes or more. Else they are counted by x alone.
  bool in_rows = false;
  // A thread has VECTOR elements side by side, of `count` along x in all (a constant and a param).
  bool packed = false;
  // A thread has BLOCK elements side by side, of `count` along x in all (a constant and a param).
  // It converts them together before and after it computes: for a CPU, whose compilers make no
  // vectors of single conversions of halves. Without either, a thread has one element, which a
  // CPU's compiler makes vectors of.
  bool blocked = false;
  // Where an operand is turned, a thread or threadgroup has a square, and reads those operands for
  // all of it first. Blocked: a thread has BLOCK lines of `lines` along y (a param). Packed:
  // threadgroups of kWeakTile have squares of kTurnedSide, see weak_groups(); then threads are not
  // counted by position, and neither VECTOR nor `count` is there.
  bool turned() const noexcept {
    return std::any_of(operands.begin(), operands.begin() + count,
                       [](const Source& source) { return source.access == Access::turned; });
  }
};
inline constexpr int64_t kTurnedSide = 32;

// The kernel of an expression: inputs that are neither numbers nor taken, in order, named a, b, c
// after the first operand that reads them; an output "out", in place where an operand is taken;
// params named as the operands; the constants C and R. Made once for the process; thread-safe.
const Kernel& elementwise_kernel(const Expression& expression, const Pattern& pattern);

}  // namespace holdfast::array
