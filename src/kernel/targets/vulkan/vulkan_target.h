#pragma once

#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// For Vulkan: kernel text through clang, native GLSL and finished SPIR-V. Code is the module's
// words.
class VulkanTarget final : public Target {
 public:
  explicit VulkanTarget(const hal::DeviceInfo& device);

  std::span<const NativeKind> natives() const noexcept override;
  Result<GeneratedKernel> generate(const Definition& definition, const CallSignature& signature,
                                   const GenerateOptions& options) const override;
  Result<std::string> version() override;
  Result<Code> compile(const CompileJob& job) override;
  Result<std::optional<Size3>> group_size(const CompileJob& job,
                                          std::span<const std::byte> code) const override;
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override;
  Failure cut(const Interface& interface, const LaunchShape& shape,
              DispatchParts& parts) const override;

 private:
  Result<Code> compile_text(const CompileJob& job) const;

  std::string device_;  // DeviceInfo::architecture
  hal::Groups max_groups_;
};

}  // namespace holdfast::kernel
