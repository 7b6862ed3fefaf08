#pragma once

#include <cstddef>
#include <string_view>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/cuda/cuda_api.h"

namespace holdfast::hal {

class CudaCore;

// Host memory that the driver is told of, so that GPUs reach it. The driver knows whole pages, each
// once, for all GPUs of the process; so imports that lie in one registration share it, whoever made
// it. With the context current. Thread-safe.

// From now on GPUs reach the memory. `owned` says whether the registration is one of ours, to be
// ended as often as it was begun; memory that others registered is used as it is. Refused: memory
// of which only a part is registered.
struct CudaRegistered {
  cu::CUdeviceptr address = 0;
  bool owned = false;
};
Result<CudaRegistered> register_host_memory(const CudaCore& core, std::byte* data, Bytes size,
                                            std::string_view what);
void end_registration(const CudaCore& core, std::byte* data, Bytes size) noexcept;

}  // namespace holdfast::hal
