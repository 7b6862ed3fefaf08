#include "holdfast/kernel/targets/cpu/kernel_host.h"

#include <fmt/format.h>

#include "holdfast/base/error.h"
#include "holdfast/kernel/targets/check_sentences.h"

namespace holdfast::kernel {

KernelHost::KernelHost(std::string_view kernel, FiberGroupPool& pool)
    : hf_host{}, kernel_(kernel), pool_(pool) {
  run_group = [](hf_host* host, unsigned count, void (*run_item)(void*, unsigned), void* data) {
    KernelHost& self = of(host);
    if (!self.lease_) self.lease_.emplace(self.pool_);
    (**self.lease_).run(self, self.kernel_, count, run_item, data);
  };
  hf_host::barrier = [](hf_host* host, unsigned line) { of(host).fibers().barrier(line); };
  hf_host::simd_barrier = [](hf_host* host, unsigned line) {
    of(host).fibers().simd_barrier(line);
  };
  hf_host::out_of_bounds = [](hf_host* host, const char* file, unsigned line, const char* buffer,
                              long index, unsigned long size) {
    throw ExecutionError(
        out_of_bounds_sentence({of(host).kernel_, file, line}, index, buffer, size));
  };
  hf_host::assertion = [](hf_host* host, const char* file, unsigned line, const char* expression) {
    throw ExecutionError(assertion_sentence({of(host).kernel_, file, line}, expression));
  };
}

FiberGroup& KernelHost::fibers() {
  if (!lease_) {
    throw ExecutionError(fmt::format("kernel '{}': a barrier outside run_group", kernel_));
  }
  return **lease_;
}

}  // namespace holdfast::kernel
