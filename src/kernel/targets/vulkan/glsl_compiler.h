#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/pipeline.h"

namespace holdfast::kernel {

// The text of one compute kernel, as its author wrote it, with a function `main`.
struct GlslSource {
  std::string name{};  // the kernel's, for messages
  // GLSL for Vulkan. Without a #version of its own it is `#version 460`. #include is not supported.
  std::string text{};
  // Macros that exist before the first line: name and replacement. Names are identifiers, each
  // given once; a replacement has one line and no comment.
  std::vector<std::pair<std::string, std::string>> defines{};
  // How the text reaches what a dispatch binds; passed on to the module.
  hal::SpirvBindings bindings = hal::SpirvBindings::descriptors;
};

// Text to a finished module: SPIR-V 1.5 for Vulkan 1.2, with the entry point "main", not optimized
// (drivers do that again anyway). The same source gives the same words. Thread-safe; the first call
// of a process takes much longer than the others.
//
// A source that does not compile is ErrorCode::usage. The message names the kernel and, for every
// error, the line as the author counts it (#line renumbers, defines do not), the compiler's words,
// the line itself and a caret under the token that the compiler names.
//
// Nothing in a source ends the process: a text of more than kMaxGlslBytes, or one nested so deeply
// that compiling it would need more than 4 MiB of stack, is refused likewise. Time and memory are
// not bounded: macros can grow exponentially.
Result<hal::SpirvModule> compile_glsl(const GlslSource& source);

inline constexpr size_t kMaxGlslBytes = size_t{1} << 20;

// All of the compiler that decides what a source becomes, for cache keys.
std::string glsl_compiler_version();

}  // namespace holdfast::kernel
