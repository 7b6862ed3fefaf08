#include "holdfast/testing/kernels.h"

#include <embedded/testing_spirv.h>
#include <embedded/testing_text.h>

#include <algorithm>
#include <iterator>

#include "holdfast/base/error.h"
#include "holdfast/testing/cuda.h"

namespace holdfast::testing {
namespace {

void set(const hal::HostGroup& g) {
  std::ranges::fill(g.binding<uint8_t>(0), g.parameter<uint8_t>());
}

void add(const hal::HostGroup& g) {
  const auto in = g.binding<const uint8_t>(0);
  const auto out = g.binding<uint8_t>(1);
  const auto value = g.parameter<uint8_t>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(in[i] + value);
}

void affine(const hal::HostGroup& g) {
  const auto value = g.parameter<uint8_t>();
  for (uint8_t& b : g.binding<uint8_t>(0)) b = static_cast<uint8_t>(2 * b + value);
}

void mix3(const hal::HostGroup& g) {
  const auto x = g.binding<const uint8_t>(0);
  const auto y = g.binding<const uint8_t>(1);
  const auto z = g.binding<uint8_t>(2);
  const auto value = g.parameter<uint8_t>();
  for (size_t i = 0; i < z.size(); ++i) {
    z[i] = static_cast<uint8_t>(2 * z[i] + 3 * x[i] + y[i] + value);
  }
}

void slow_add(const hal::HostGroup& g) {
  const auto in = g.binding<const uint8_t>(0);
  const auto out = g.binding<uint8_t>(1);
  const auto p = g.parameter<SlowAdd>();
  volatile uint32_t x = 0;
  for (uint32_t round = 0; round < p.rounds; ++round) x = x * 1664525 + 1013904223;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(in[i] + p.value);
}

struct Kernel {
  std::string_view name;
  uint32_t bindings;
  Bytes parameter_bytes;
  void (*function)(const hal::HostGroup&);
};
constexpr Kernel kKernels[] = {
    {"set", 1, 1_B, set},
    {"add", 2, 1_B, add},
    {"affine", 1, 1_B, affine},
    {"mix3", 3, 1_B, mix3},
    {"slow_add", 2, {sizeof(SlowAdd)}, slow_add},
};

// Its entry point is test_NAME, since "add" and "set" are reserved words of PTX.
hal::CudaModule cuda_module(const Kernel& kernel) {
  constexpr uint32_t kThreads = 256;
  const std::string entry_point = "test_" + std::string(kernel.name);
  if (cuda_driver() == CudaDriver::stub) {
    return stub_module(entry_point, kernel.function, kernel.bindings, kernel.parameter_bytes,
                       kThreads);
  }
  const std::string file = std::string(kernel.name) + ".ptx";
  return ptx_module(entry_point, embedded::testing_text(file), kThreads);
}

}  // namespace

hal::PipelineDesc test_kernel(Family family, std::string_view kernel, std::string name) {
  const auto* found = std::ranges::find(kKernels, kernel, &Kernel::name);
  if (found == std::end(kKernels)) {
    throw UsageError("there is no test kernel '" + std::string(kernel) + "'");
  }
  hal::PipelineDesc desc{name.empty() ? std::string(kernel) : std::move(name),
                         hal::HostFunction(found->function), found->bindings,
                         found->parameter_bytes};
  if (family == Family::vulkan) {
    const std::span<const uint32_t> words = embedded::testing_spirv(kernel);
    desc.module = hal::SpirvModule{{words.begin(), words.end()}};
  } else if (family == Family::cuda) {
    desc.module = cuda_module(*found);
  }
  return desc;
}

}  // namespace holdfast::testing
