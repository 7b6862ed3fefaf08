// Runs one small kernel and prints what that took: the other processes of tests of the disk cache.
//   holdfast_kernel_child [ROUNDS]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "holdfast/hal/devices.h"
#include "holdfast/kernel/launch.h"

namespace hf = holdfast;

namespace {

float run_once(const hf::Ref<hf::runtime::Context>& context, hf::kernel::KernelRuntime& kernels) {
  const hf::kernel::Kernel kernel(
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

}  // namespace

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
    const auto context = hf::runtime::Context::create(hf::hal::open_default_device().or_raise());
    uint64_t compiles = 0;
    uint64_t disk_hits = 0;
    for (int i = 0; i < rounds; ++i) {
      hf::kernel::KernelRuntime kernels(context);
      if (run_once(context, kernels) != 10) {
        std::fprintf(stderr, "wrong result\n");
        return 1;
      }
      compiles += kernels.cache().stats().compiles;
      disk_hits += kernels.cache().stats().disk_hits;
    }
    std::printf("compiles %llu, disk hits %llu\n", static_cast<unsigned long long>(compiles),
                static_cast<unsigned long long>(disk_hits));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
