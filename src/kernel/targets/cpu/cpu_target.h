#pragma once

#include <memory>
#include <string>

#include "holdfast/kernel/targets/cpu/cpp_compiler.h"
#include "holdfast/kernel/targets/cpu/fiber_group.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// Kernels as shared objects of the system's C++ compiler, run as host functions of the CPU device.
//
// Code is an object's bytes. A pipeline keeps its object loaded. What a kernel raises (an index out
// of bounds, an assertion, threads that miss a barrier) fails the list, with a text that names the
// kernel and the author's line.
//
// Each job is a run of the compiler of its own: eight in one run would save a sixth of the time,
// and each of them would then carry the code and the threadgroup memory of all.
class CpuTarget final : public Target {
 public:
  struct Options {
    CppOptions compiler = default_options();
    // HOLDFAST_CPU_DEBUG; in a process with AddressSanitizer kernels have it as well.
    static CppOptions default_options();
  };
  CpuTarget();
  explicit CpuTarget(Options options);

  std::span<const NativeKind> natives() const noexcept override;
  Result<GeneratedKernel> generate(const Definition& definition, const CallSignature& signature,
                                   const GenerateOptions& options) const override;
  Result<std::string> version() override;
  Result<Code> compile(const CompileJob& job) override;
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override;
  // A group of the device runs many threadgroups: see LaunchBlock::groups_per_dispatch.
  Failure cut(const Interface& interface, const LaunchShape& shape,
              DispatchParts& parts) const override;

 private:
  Options options_;
  std::shared_ptr<FiberGroupPool> fibers_ = std::make_shared<FiberGroupPool>();
};

}  // namespace holdfast::kernel
