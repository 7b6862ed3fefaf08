#pragma once

#include <string_view>

#include "holdfast/hal/module.h"

namespace holdfast::hal::cts {

// The suite's kernels for NVIDIA's driver: PTX, which the driver finishes for its GPU.
Module cuda_module(std::string_view kernel, Bytes parameter_bytes);

// The same for the stub driver: the host functions that the CPU runs, given the arguments of a GPU.
// Makes them known to the stub, which must be there.
Module stub_cuda_module(std::string_view kernel, Bytes parameter_bytes);

}  // namespace holdfast::hal::cts
