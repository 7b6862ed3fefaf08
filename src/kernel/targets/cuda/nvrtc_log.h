#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "holdfast/kernel/diagnostics.h"
#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// The errors in a log of NVRTC's, by the author's files and lines. What it has against a text of
// ours, where a template was used wrongly, stands at the author's line that led there. Of several
// errors for one line the first, from which the others usually follow.
std::vector<Diagnostic> read_nvrtc_log(std::string_view log, std::span<const SourceText> sources);

}  // namespace holdfast::kernel
