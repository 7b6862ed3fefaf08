#include <holdfast/kernels.h>

#include <array>
#include <cstdio>
#include <vector>

namespace hf = holdfast;
using hf::kernel::ArrayRef;
using hf::kernel::Constant;
using hf::kernel::Dtype;
using hf::kernel::Param;

int main() try {
  auto context = hf::runtime::Context::create(hf::hal::open_device("cpu").or_raise());
  auto stream = context->new_stream({.name = "main"});
  hf::kernel::KernelRuntime kernels(context);  // compiled variants, in memory and on disk

  const hf::Kernel axpy({
      .name = "axpy",
      .inputs = {"x", "y"},
      .outputs = {"z"},
      .source = "uint i = thread_position_in_grid.x; z[i] = T(a * x[i] + y[i]);",
  });

  const std::vector<float> ones(1000, 1.0F);
  std::vector<float> result(1000);
  const std::array<int64_t, 1> shape{1000};
  const hf::Bytes size{ones.size() * sizeof(float)};
  auto x = stream->allocate(size, "x");
  auto y = stream->allocate(size, "y");
  auto z = stream->allocate(size, "z");
  stream->upload(x, {}, std::as_bytes(std::span(ones)));
  stream->upload(y, {}, std::as_bytes(std::span(ones)));
  const std::array inputs{ArrayRef{x, Dtype::float32, shape}, ArrayRef{y, Dtype::float32, shape}};
  const std::array outputs{ArrayRef{z, Dtype::float32, shape}};
  const std::array<Constant, 1> constants{{{"T", Dtype::float32}}};
  const std::array<Param, 1> params{{{"a", 2.0F}}};
  kernels.launch(*stream, axpy,
                 {
                     .inputs = inputs,
                     .outputs = outputs,
                     .grid = {1000, 1, 1},  // threads
                     .threadgroup = {256, 1, 1},
                     .constants = constants,  // compiled in
                     .params = params,        // at run time
                 });
  stream->flush();  // submitted; nothing waits
  x.reset();        // in flight, so its memory stays
  stream->readback(z, {}, std::as_writable_bytes(std::span(result)));  // waits for `z` alone

  std::printf("z[0] = %g\n", result[0]);
  std::puts(result[0] == 3.0F && result[999] == 3.0F ? "ok" : "wrong");
} catch (const hf::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
