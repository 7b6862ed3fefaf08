#pragma once

#include <string>

#include "holdfast/testing/stub_cuda/interface.h"

// NVIDIA's driver without a GPU: libholdfast_stub_cuda.so has the entry points that
// src/hal/cuda/cuda_api.h asks for, and does in host memory what they say; those of cublaslt_api.h
// too. Give stub_cuda_path() to CudaOptions::driver or CudaApi::load, and, where matrix products
// are wanted, to CudaOptions::matrix_library. Linking this makes every violation that the stub
// reports a failure of the test that runs, unless the test takes it.

namespace holdfast::testing {

using stub_cuda::StubControl;
using stub_cuda::StubDevice;
using stub_cuda::StubKernel;
using stub_cuda::StubLaunch;

// What HOLDFAST_STUB_CUDA names; else the library beside the running program.
std::string stub_cuda_path();

// Why the stub cannot be used here; empty: it can. Where HOLDFAST_STUB_CUDA is set it always can:
// tests then fail, and say why.
std::string why_no_stub_cuda();

// Loads the library, which then stays for the rest of the process. EnvironmentError where it cannot
// be loaded.
StubControl& stub_cuda_control();

// An image for cuModuleLoadDataEx with these kernels. Each is a name and, if the kernel is to
// declare its arguments, the bytes of each: "copy 8 8 4". "copy waits 8 8 4" waits for the grids
// before it; without that, nothing orders it behind a programmatic edge.
std::string stub_cuda_module(const std::vector<std::string>& kernels);

}  // namespace holdfast::testing
