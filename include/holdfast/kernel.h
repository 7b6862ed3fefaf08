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

// How Kernel::operator() is called with arrays. The call returns the outputs, followed by the
// results of `in_place`. It raises UsageError at once for what can be seen without compiling:
// counts, shapes, names of constants and params, a threadgroup larger than the device allows.
// Evaluating a result raises compile errors.
struct KernelCall {
  Size3 grid{};         // threads: no surplus thread exists
  Size3 threadgroup{};  // threads
  std::vector<Shape> output_shapes{};
  std::vector<Dtype> output_dtypes{};
  // Compiled in: each value is a variant of its own.
  std::vector<Constant> constants{};
  // Run-time scalars: no recompilation.
  std::vector<Param> params{};
  // Arguments that the kernel both reads and writes. Their results follow the outputs of the call;
  // the arrays given here do not change. The kernel works in an array's own memory if nobody else
  // can see it once this node runs, and in a copy otherwise. To donate the memory, drop the array
  // or move it in here.
  std::vector<Array> in_place{};
  // The value of every output element before the kernel runs. Not given: outputs are uninitialized.
  std::optional<Scalar> init_value{};
  // True: inputs that are not row-contiguous are copied first. False: the kernel sees inputs as
  // they lie and uses x_strides; inputs with negative strides are copied all the same. Not given:
  // as the kernel's definition says.
  std::optional<bool> ensure_row_contiguous{};
  // Appears in every error and report of this call.
  std::string label{};
  On on{};
};

}  // namespace holdfast

#pragma GCC visibility pop
