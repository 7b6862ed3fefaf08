#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/kernel/targets/cuda/nvrtc_library.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

struct CudaOptions {
  // "sm_90": finished code for that GPU (a cubin). "compute_90": PTX, which its driver and those of
  // later GPUs finish.
  std::string architecture = "sm_90";
  bool debug = false;  // profilers and debuggers see the author's lines; code stays optimized
};

// The architecture to compile for, so that a GPU of this one ("sm_90") runs the code: the same; or,
// where `known` (see NvrtcLibrary::architectures) lacks it, PTX of the newest one before it. The
// same, too, where all that is known is newer: compile_cuda() then says what to install.
std::string architecture_for(std::string_view gpu, std::span<const int> known);
// With the instructions that no other GPU has, where there are any: "sm_90a" for "sm_90".
std::string with_own_instructions(const std::string& architecture);

// Whether code for it may wait for the grids before it (griddepcontrol).
bool has_grid_control(std::string_view architecture);

// CUDA text, generated or native, to code. The same job gives the same bytes. Thread-safe; calls
// run in parallel; no GPU is needed. The entry point of native text is extern "C", its headers are
// found where those of NVRTC's toolkit are, and the constants of the job are macros.
//
// Text that does not compile is ErrorCode::usage: see Target. No NVRTC, or an architecture that
// it does not know, is environment. Time and memory are not bounded.
Result<Code> compile_cuda(const CompileJob& job, const CudaOptions& options);
Result<Code> compile_cuda(const CompileJob& job, const CudaOptions& options,
                          const NvrtcLibrary& library);

inline constexpr size_t kMaxCudaBytes = size_t{1} << 21;

// All besides the job that decides what becomes of it, for cache keys.
Result<std::string> cuda_compiler_version(const CudaOptions& options);

}  // namespace holdfast::kernel
