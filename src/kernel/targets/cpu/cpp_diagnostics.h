#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "holdfast/kernel/diagnostics.h"
#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// The errors in the messages of g++ or clang++, each at the author's line. An error that shows
// inside generated text (a macro or template that the author used wrongly) stands where the author
// used it, and one that follows from a bracket that the author left open stands at the bracket. Of
// several for one line the first, from which the others usually follow; notes about
// lines of the author's come after their error. Files of the compiler's own are never named, so
// that the same text always gives the same words.
std::vector<Diagnostic> read_cpp_log(std::string_view log, std::span<const SourceText> sources);

}  // namespace holdfast::kernel
