#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// Reads LLVM's text as clang 16 and later write it. What a kernel cannot need (metadata but for
// lines, attributes, linkage) is passed over. A Failure of code `unsupported` says what was not
// understood: `place` is then the author's, outermost call last, or has no line, and the message
// shows LLVM's. No text, however broken, does worse: every function that is there is whole, with a
// terminator for each block, operands of the number that their opcode takes, and types no larger
// than kMaxTypeBytes.
Result<std::unique_ptr<Module>> read(std::string_view text, std::vector<Location>* place = nullptr);

inline constexpr uint64_t kMaxTypeBytes = uint64_t{1} << 32;

}  // namespace holdfast::kernel::ir
