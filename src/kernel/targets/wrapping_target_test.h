#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// Does what another target does: tests replace a part of it.
class WrappingTarget : public Target {
 public:
  explicit WrappingTarget(std::shared_ptr<Target> inner) : inner_(std::move(inner)) {}

  std::span<const NativeKind> natives() const noexcept override { return inner_->natives(); }
  Result<GeneratedKernel> generate(const Definition& definition, const CallSignature& signature,
                                   const GenerateOptions& options) const override {
    return inner_->generate(definition, signature, options);
  }
  Result<std::string> version() override { return inner_->version(); }
  Result<Code> compile(const CompileJob& job) override { return inner_->compile(job); }
  Result<std::optional<Size3>> group_size(const CompileJob& job,
                                          std::span<const std::byte> code) const override {
    return inner_->group_size(job, code);
  }
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override {
    return inner_->load(device, job, code);
  }
  Failure cut(const Interface& interface, const LaunchShape& shape,
              DispatchParts& parts) const override {
    return inner_->cut(interface, shape, parts);
  }

 private:
  std::shared_ptr<Target> inner_;
};

}  // namespace holdfast::kernel
