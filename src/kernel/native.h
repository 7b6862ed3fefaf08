#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// Whether it runs on NVIDIA GPUs.
constexpr bool is_cuda(NativeKind kind) {
  return kind == NativeKind::cuda || kind == NativeKind::ptx || kind == NativeKind::cubin;
}

// How a native text or module is called, in the form in which generated kernels say it: its
// bindings in its own order, its params one after another, each aligned to its size, and no
// launch block. For CUDA the params are a struct, padded to eight bytes; where the native does not
// declare its threadgroup, the call's follows behind it, which the code does not see.
GeneratedKernel native_interface(const Definition& definition, const CallSignature& signature,
                                 const Native& native);

// Names of dtypes in a language, by Dtype.
using DtypeNames = std::array<const char*, kDtypes>;
// Names and replacements.
using Macros = std::vector<std::pair<std::string, std::string>>;
// The constants of a call as macros of a native text.
Macros native_macros(std::span<const Constant> constants, const DtypeNames& types);

}  // namespace holdfast::kernel
