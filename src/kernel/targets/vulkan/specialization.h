#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/pipeline.h"
#include "holdfast/kernel/signature.h"

namespace holdfast::kernel {

// The constants of a call as specialization constants of a native: of a module all of them, of a
// text those that Native::constants names. A Failure says which cannot be one.
Result<std::vector<hal::SpirvModule::Constant>> specialization_of(
    std::string_view kernel, const Native& native, std::span<const Constant> constants);

}  // namespace holdfast::kernel
