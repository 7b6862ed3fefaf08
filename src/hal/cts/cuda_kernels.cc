#include "holdfast/hal/cts/cuda_kernels.h"

#include <embedded/cts_text.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/kernels.h"
#include "holdfast/testing/stub_cuda.h"

namespace holdfast::hal::cts {

namespace {

CudaModule module_of(std::string_view kernel, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.c_str(), text.size() + 1));  // ends in a zero
  CudaModule module;
  module.code.assign(bytes.begin(), bytes.end());
  module.entry_point = kernel;
  module.binding_lengths = true;
  module.threads = {kGroupElements, 1, 1};
  return module;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

// One block, as a group of the CPU's function. The arguments: see CudaModule.
int run_block(const HostFunction& function, uint32_t bindings, const testing::StubLaunch& launch) {
  constexpr size_t kWord = sizeof(uint64_t);
  std::vector<std::span<std::byte>> spans;
  for (uint32_t i = 0; i < bindings; ++i) {
    const auto address = launch.argument<uint64_t>(i * kWord);
    const auto length = launch.argument<uint64_t>((bindings + i) * kWord);
    spans.emplace_back(stub_cuda::pointer_of<std::byte>(address), length);
  }
  const std::span arguments(launch.arguments, launch.argument_bytes);
  const auto& [grid, block, at] = std::tie(launch.grid, launch.block, launch.block_index);
  if (block.x != kGroupElements || block.y != 1 || block.z != 1) return 1;
  function({{at.x, at.y, at.z},
            {grid.x, grid.y, grid.z},
            spans,
            arguments.subspan(std::min(2 * bindings * kWord, arguments.size()))});
  return 0;
}

}  // namespace

Module cuda_module(std::string_view kernel, Bytes parameter_bytes) {
  std::string text(embedded::cts_text(fmt::format("{}.ptx", kernel)));
  // PTX knows more than 4 KiB of arguments since 8.1.
  const bool is_large = parameter_bytes + 16_B > 4_KiB;
  replace_all(text, "@VERSION@", is_large ? "8.1" : "7.0");
  replace_all(text, "@BYTES@", std::to_string(parameter_bytes.value));
  return module_of(kernel, text);
}

Module stub_cuda_module(std::string_view kernel, Bytes parameter_bytes) {
  const auto* interface = std::ranges::find(kKernels, kernel, &KernelInterface::name);
  const uint32_t bindings = interface->bindings;
  testing::stub_cuda_control().register_kernel(
      std::string(kernel),
      [function = std::get<HostFunction>(cpu_module(kernel, parameter_bytes)), bindings](
          const testing::StubLaunch& launch) { return run_block(function, bindings, launch); });
  std::string declared(kernel);
  for (uint32_t i = 0; i < 2 * bindings; ++i) declared += " 8";
  if (parameter_bytes > 0_B) declared += fmt::format(" {}", parameter_bytes.value);
  return module_of(kernel, testing::stub_cuda_module({declared}));
}

}  // namespace holdfast::hal::cts
