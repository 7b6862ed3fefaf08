#pragma once

#include <string>

#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {

// Text of targets whose entry point takes a pointer for each binding, and the parameter bytes as a
// structure `hf_p`.

// The parameter bytes as a type, "hf_parameters". Its names are none that a macro of the header
// could have.
std::string parameter_block(const Interface& interface, const CallSignature& signature);
// Binding i as a parameter of the entry point, and its name there, which is the author's unless the
// body sees something else by that name.
std::string pointer_parameter(const Usage& usage, size_t i, bool bounds, bool restricted);
std::string pointer_name(const Usage& usage, size_t i, bool bounds);
// What the body knows besides the entry point's parameters.
std::string argument_declarations(const Usage& usage, const Interface& interface,
                                  const CallSignature& signature, bool bounds);

}  // namespace holdfast::kernel
