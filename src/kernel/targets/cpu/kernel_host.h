#pragma once

#include <optional>
#include <string_view>

#include "holdfast/kernel/targets/cpu/fiber_group.h"
#include "holdfast/kernel/targets/cpu/kernel_abi.h"

namespace holdfast::kernel {

// What a kernel finds behind hf_call::host while it runs. Borrows all; for one call.
//
// Its functions throw ExecutionError with a text that names the kernel, the author's line, and the
// buffer, index and size, or the expression.
class KernelHost final : public hf_host {
 public:
  KernelHost(std::string_view kernel, FiberGroupPool& pool);
  KernelHost(const KernelHost&) = delete;
  KernelHost& operator=(const KernelHost&) = delete;

 private:
  static KernelHost& of(hf_host* host) { return *static_cast<KernelHost*>(host); }
  FiberGroup& fibers();

  std::string_view kernel_;
  FiberGroupPool& pool_;
  std::optional<FiberGroupPool::Lease> lease_;  // once the kernel has asked for one
};

}  // namespace holdfast::kernel
