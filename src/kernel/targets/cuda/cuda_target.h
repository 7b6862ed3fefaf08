#pragma once

#include <string>

#include "holdfast/kernel/targets/cuda/nvrtc.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// Kernels for one NVIDIA GPU: cubins that NVRTC makes for its architecture. Where NVRTC is older
// than the GPU, they are PTX that the driver finishes.
//
// Native cubin and PTX need no NVRTC. Native CUDA C++ may use all instructions of the GPU, also
// those that only its architecture has (sm_90a).
class CudaTarget final : public Target {
 public:
  // For a device that takes hal::CudaModule. HOLDFAST_CUDA_DEBUG=1: profilers and debuggers see the
  // author's lines.
  explicit CudaTarget(const hal::DeviceInfo& device);

  std::span<const NativeKind> natives() const noexcept override;
  Result<GeneratedKernel> generate(const Definition& definition, const CallSignature& signature,
                                   const GenerateOptions& options) const override;
  // Never a failure: where there is no NVRTC, compile() says so of what needs it.
  Result<std::string> version() override;
  Result<Code> compile(const CompileJob& job) override;
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override;
  // Groups of the device are threadgroups: see cuda_text(). A grid that is longer than the device's
  // dispatches is run in several.
  Failure cut(const Interface& interface, const LaunchShape& shape,
              DispatchParts& parts) const override;

 private:
  CudaOptions options_for(const NvrtcLibrary& library) const;

  std::string architecture_;
  hal::Groups max_groups_;
  bool debug_;
};

}  // namespace holdfast::kernel
