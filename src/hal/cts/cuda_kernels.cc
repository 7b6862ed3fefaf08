#include "holdfast/hal/cts/cuda_kernels.h"

#include <embedded/cts_text.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/kernels.h"
#include "holdfast/testing/cuda.h"

namespace holdfast::hal::cts {

namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

Module cuda_module(std::string_view kernel, Bytes parameter_bytes) {
  std::string text(embedded::cts_text(fmt::format("{}.ptx", kernel)));
  // PTX knows more than 4 KiB of arguments since 8.1.
  const bool is_large = parameter_bytes + 16_B > 4_KiB;
  replace_all(text, "@VERSION@", is_large ? "8.1" : "7.0");
  replace_all(text, "@BYTES@", std::to_string(parameter_bytes.value));
  return testing::ptx_module(kernel, text, kGroupElements);
}

Module stub_cuda_module(std::string_view kernel, Bytes parameter_bytes) {
  const auto* interface = std::ranges::find(kKernels, kernel, &KernelInterface::name);
  return testing::stub_module(kernel, std::get<HostFunction>(cpu_module(kernel, parameter_bytes)),
                              interface->bindings, parameter_bytes, kGroupElements);
}

}  // namespace holdfast::hal::cts
