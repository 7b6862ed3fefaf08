#pragma once

#include <string>

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// Thrown inside the translator alone: what Vulkan cannot do, in words that follow "on Vulkan,".
struct Refused {
  std::string message;
  LocationId location = 0;  // of the instruction that needs it
};

}  // namespace holdfast::kernel::ir
