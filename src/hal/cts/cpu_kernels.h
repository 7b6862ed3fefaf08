#pragma once

#include <string_view>

#include "holdfast/hal/pipeline.h"

namespace holdfast::hal::cts {

// The kernels of kernels.h as host functions, for every device that runs those.
Module cpu_module(std::string_view kernel, Bytes parameter_bytes = {});

}  // namespace holdfast::hal::cts
