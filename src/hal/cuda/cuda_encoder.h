#pragma once

#include <span>
#include <vector>

#include "holdfast/hal/cuda/cuda_work.h"

namespace holdfast::hal {

// What became of a work that was launched command by command.
struct CudaLaunched {
  Failure failure;   // of code execution: the list's own; any other is the driver's
  bool any = false;  // whether the stream has any of its commands
  std::vector<CudaProfiler::Timed> timed{};  // while kernels are profiled
};

// Launches the commands of a work on the stream, in recorded order, which needs no barriers. The
// first that fails is the last. `skipped`: commands to leave out, in recorded order.
CudaLaunched launch(const CudaCore& core, const CudaWork& work, cu::CUstream stream,
                    std::span<const Command* const> skipped);

}  // namespace holdfast::hal
