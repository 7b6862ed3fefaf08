#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// How a native text or module is called, in the form in which generated kernels say it: its
// bindings in its own order, its params one after another, each aligned to its size, and no
// launch block.
GeneratedKernel native_interface(const Definition& definition, const CallSignature& signature,
                                 const Native& native);

// The constants of a call as macros of a native text: name and replacement. Of GLSL without those
// that Native::constants names: they are specialized.
std::vector<std::pair<std::string, std::string>> native_macros(const Native& native,
                                                               std::span<const Constant> constants);
// As specialization constants: of a module all of them, of a text those that Native::constants
// names. A Failure says which cannot be one.
Result<std::vector<hal::SpirvModule::Constant>> native_specialization(
    std::string_view kernel, const Native& native, std::span<const Constant> constants);

}  // namespace holdfast::kernel
