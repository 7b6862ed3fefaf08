#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/array.h"
#include "holdfast/kernel/kernel.h"

#pragma GCC visibility push(default)

namespace holdfast {

using kernel::Constant;
using kernel::MathMode;
using kernel::Native;
using kernel::NativeKind;
using kernel::Param;
using kernel::Scalar;
using kernel::Size3;
using KernelDefinition = kernel::Definition;

// How Kernel::operator() is called with arrays. It returns the outputs, then what became of
// in_place. UsageError at once for what can be seen without compiling: counts, shapes, names of
// constants and params, a threadgroup larger than the device allows. Compile errors are raised by
// whoever evaluates a result.
struct KernelCall {
  Size3 grid{};         // threads: no surplus thread exists
  Size3 threadgroup{};  // threads
  std::vector<Shape> output_shapes{};
  std::vector<Dtype> output_dtypes{};
  // Compiled in: each value is a variant of its own.
  std::vector<Constant> constants{};
  // Run-time scalars: no recompilation.
  std::vector<Param> params{};
  // Arguments that the kernel reads and writes. What the kernel made of them follows the outputs of
  // the call; the arrays given here do not change. Their memory is used as it is where nobody else
  // can see it once this node runs, and copied otherwise: drop an array, or move it in here, to
  // donate its memory.
  std::vector<Array> in_place{};
  // What outputs hold before the kernel runs; else they are in any state.
  std::optional<Scalar> init_value{};
  // Inputs that are not row-contiguous are copied first. Without it the kernel sees them as they
  // lie and uses x_strides; those with negative strides are copied all the same. Not given: as the
  // kernel's definition says.
  std::optional<bool> ensure_row_contiguous{};
  // Reaches every error and report of this call.
  std::string label{};
  On on{};
};

}  // namespace holdfast

#pragma GCC visibility pop
