#pragma once

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// Writes bits of products of 128 bits as operations of 64 bits, which is all that Vulkan has: clang
// from version 22 on makes such products where a text multiplies by halves. Others of 128 bits stay
// as they are.
void split_wide_products(Module& module, Function& function);

}  // namespace holdfast::kernel::ir
