#pragma once

#include "holdfast/testing/stub_cuda/state.h"

namespace holdfast::stub_cuda {

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

// The entry points themselves, as calls.cc hands them out: counted, and failed where a test planned
// it.
#define HOLDFAST_STUB_DECLARE(name, version, parameters) CUresult name parameters;
HOLDFAST_CUDA_CALLS(HOLDFAST_STUB_DECLARE)
#undef HOLDFAST_STUB_DECLARE

// NOLINTEND(readability-identifier-naming)

// Whether the process is a child of the one that loaded the library.
bool is_fork();

// Counts a call of an entry point, and says what it returns if a test has planned that. The
// driver's answer once it has shut down.
CUresult planned_failure(const char* name);

// Whether there is an entry point of this name, also of cuBLASLt.
bool is_call(std::string_view name);

}  // namespace holdfast::stub_cuda
