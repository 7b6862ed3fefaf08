#pragma once

#include <optional>
#include <string_view>

#include "holdfast/kernel/targets/vulkan/glsl_diagnostics.h"

namespace glslang {
class TIntermediate;
}

// glslang recurses over what it parsed, without a bound: these keep its stack below 4 MiB, which
// GlslCompiler.a_text_at_the_limits_compiles_in_four_mebibytes_of_stack checks.

namespace holdfast::kernel {

// Finds what would overflow the stack while parsing: endless statements and directives, and
// structures in structures. The text has its macros expanded.
std::optional<Diagnostic> too_long_to_parse(std::string_view text);

// Finds what would overflow it afterwards: expressions and statements that are nested too deeply.
// For a shader that was parsed.
std::optional<Diagnostic> too_deep_to_translate(const glslang::TIntermediate& parsed,
                                                const GlslLines& lines);

}  // namespace holdfast::kernel
