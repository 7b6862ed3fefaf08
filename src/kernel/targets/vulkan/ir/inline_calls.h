#pragma once

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// Puts the bodies of functions that the module has in the place of their calls, until the function
// calls none of them. Throws Refused where a function calls itself, on whatever way, or where all
// of it would be too long; its message names the function.
void inline_calls(Module& module, Function& function);

}  // namespace holdfast::kernel::ir
