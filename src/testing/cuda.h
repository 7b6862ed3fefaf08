#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/module.h"

// What tests on CUDA devices share. They run on a GPU or on the stub of its driver.

namespace holdfast::testing {

// Why a GPU cannot be tested here; empty: it can. Where HOLDFAST_REQUIRE_CUDA=1 it always can: a
// test then fails to open its device, and says so.
std::string why_no_cuda_gpu();

enum class CudaDriver { gpu, stub };
const char* to_string(CudaDriver driver);
// What Family::cuda runs on in this process: a GPU where one can be tested, else the stub.
// HOLDFAST_TEST_CUDA=stub: the stub in any case.
CudaDriver cuda_driver();
// Why that one cannot be tested; empty: it can. Notes in the test's record which one it is.
std::string why_no_cuda();

// Loads the driver and makes the GPU's context, which then stay for the rest of the process: making
// a context takes longer than most tests.
Failure load_cuda();
// The driver, loaded. EnvironmentError where it cannot be.
std::shared_ptr<const hal::CudaApi> cuda_api();

// The tests' door to CudaDevice::open, on cuda_driver(): queues limited by HOLDFAST_TEST_QUEUES.
Result<Ref<hal::CudaDevice>> open_cuda(hal::CudaOptions options);

// Takes the stub's violations; a GPU's driver reports none.
std::vector<std::string> take_cuda_complaints();

// Modules of kernels that take the length of each binding and have this many threads a group.

// For a GPU: PTX, which the driver finishes for it.
hal::CudaModule ptx_module(std::string_view entry_point, std::string_view ptx, uint32_t threads);
// For the stub: the function that the CPU runs, given the arguments of a GPU. Makes it known to the
// stub under the entry point's name.
hal::CudaModule stub_module(std::string_view entry_point, hal::HostFunction function,
                            uint32_t bindings, Bytes parameter_bytes, uint32_t threads);

}  // namespace holdfast::testing
