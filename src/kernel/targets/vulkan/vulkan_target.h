#pragma once

#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// For Vulkan: native GLSL and finished SPIR-V. Kernel text is refused, with a sentence. Code is
// the module's words.
class VulkanTarget final : public Target {
 public:
  std::span<const NativeKind> natives() const noexcept override;
  Result<std::string> version() override;
  Result<Code> compile(const CompileJob& job) override;
  Result<std::optional<Size3>> group_size(const CompileJob& job,
                                          std::span<const std::byte> code) const override;
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override;
};

}  // namespace holdfast::kernel
