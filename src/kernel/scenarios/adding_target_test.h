#pragma once

#include <memory>
#include <string>

#include "holdfast/kernel/targets/cpu/cpu_target.h"
#include "holdfast/kernel/targets/wrapping_target_test.h"

namespace holdfast::kernel {

// Compiles nothing: the code of a variant is its constant N, which its pipelines add to the
// first element.
class AddingTarget final : public WrappingTarget {
 public:
  AddingTarget() : WrappingTarget(std::make_shared<CpuTarget>()) {}

  Result<std::string> version() override { return std::string("adds"); }
  Result<Code> compile(const CompileJob& job) override {
    const std::string digits = job.variant.substr(job.variant.find("N = ") + 4);
    return Code(reinterpret_cast<const std::byte*>(digits.data()),
                reinterpret_cast<const std::byte*>(digits.data() + digits.size()));
  }
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override {
    const std::string digits(reinterpret_cast<const char*>(code.data()), code.size());
    const auto n = static_cast<float>(std::stoll(digits));
    return device.create_pipeline({job.kernel, hal::HostFunction([n](const hal::HostGroup& g) {
                                     g.binding<float>(1)[0] = g.binding<float>(0)[0] + n;
                                   }),
                                   static_cast<uint32_t>(job.code.interface.bindings.size()),
                                   job.code.interface.parameter_bytes});
  }
};

}  // namespace holdfast::kernel
