// Runs one small kernel and prints what that took: the other processes of tests of the disk cache.
//   holdfast_kernel_child [ROUNDS [arrays]]
// With "arrays", a small graph of arrays instead, each round on a device of its own.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "holdfast/hal/devices.h"
#include "holdfast/kernel.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/views.h"

namespace hf = holdfast;

namespace {

float run_once(const hf::Ref<hf::runtime::Context>& context, hf::kernel::KernelRuntime& kernels) {
  const hf::Kernel kernel(
      {.name = "shared",
       .inputs = {"a"},
       .outputs = {"y"},
       .source = "uint i = thread_position_in_grid.x;\ny[i] = a[i] * a[i] + 1;"});
  const auto stream = context->new_stream();
  const std::vector<float> values{3};
  const std::array<int64_t, 1> shape{1};
  const auto a = stream->allocate(hf::Bytes{4}, "a");
  const auto y = stream->allocate(hf::Bytes{4}, "y");
  stream->upload(a, {}, std::as_bytes(std::span(values)));
  const std::array inputs{hf::kernel::ArrayRef{a, hf::kernel::Dtype::float32, shape}};
  const std::array outputs{hf::kernel::ArrayRef{y, hf::kernel::Dtype::float32, shape}};
  kernels.launch(*stream, kernel, {.inputs = inputs, .outputs = outputs});
  float result = 0;
  stream->readback(y, {}, std::as_writable_bytes(std::span(&result, 1)));
  return result;
}

hf::Array call(const hf::Kernel& kernel, const hf::Array& a) {
  return kernel({a}, {.grid = {static_cast<uint32_t>(a.size()), 1, 1},
                      .threadgroup = {32, 1, 1},
                      .output_shapes = {a.shape()},
                      .output_dtypes = {a.dtype()}})[0];
}

// Two kernels of one name, the first of an input that must be made contiguous.
float run_graph(const hf::Device& device) {
  const hf::UseStream scope(device.default_stream());
  const hf::Kernel first({.name = "shared",
                          .inputs = {"a"},
                          .outputs = {"y"},
                          .source = "uint i = thread_position_in_grid.x; y[i] = a[i] * 3;"});
  const hf::Kernel second({.name = "shared",
                           .inputs = {"a"},
                           .outputs = {"y"},
                           .source = "uint i = thread_position_in_grid.x; y[i] = a[i] + 1;"});
  const hf::Array x({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  return hf::index(hf::flatten(call(second, call(first, hf::transpose(x)))), 2).item<float>();
}

struct Cost {
  uint64_t compiles = 0;
  uint64_t disk_hits = 0;

  void add(const hf::kernel::CacheStats& stats) {
    compiles += stats.compiles;
    disk_hits += stats.disk_hits;
  }
};

// False where a result is wrong.
bool run_kernels(int rounds, Cost& cost) {
  const auto context = hf::runtime::Context::create(hf::hal::open_default_device().or_raise());
  for (int i = 0; i < rounds; ++i) {
    hf::kernel::KernelRuntime kernels(context);
    if (run_once(context, kernels) != 10) return false;
    cost.add(kernels.stats());
  }
  return true;
}

bool run_arrays(int rounds, Cost& cost) {
  for (int i = 0; i < rounds; ++i) {
    const hf::Device device(hf::hal::open_default_device().or_raise());
    if (run_graph(device) != 7) return false;
    cost.add(device.stats().kernels);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
    const bool arrays = argc > 2 && std::string_view(argv[2]) == "arrays";
    Cost cost;
    if (!(arrays ? run_arrays(rounds, cost) : run_kernels(rounds, cost))) {
      std::fprintf(stderr, "wrong result\n");
      return 1;
    }
    std::printf("compiles %llu, disk hits %llu\n", static_cast<unsigned long long>(cost.compiles),
                static_cast<unsigned long long>(cost.disk_hits));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
