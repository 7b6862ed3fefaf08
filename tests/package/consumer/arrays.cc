#include <holdfast/holdfast.h>

#include <cstdio>

namespace hf = holdfast;

int main() try {
  const hf::Kernel twice({.name = "twice",
                          .inputs = {"x"},
                          .outputs = {"y"},
                          .source = "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"});
  const hf::Array x = hf::arange(1000, hf::float32);
  const hf::Array y = twice({x}, {.grid = {1000, 1, 1},
                                  .threadgroup = {100, 1, 1},
                                  .output_shapes = {x.shape()},
                                  .output_dtypes = {x.dtype()}})[0];
  const float sum = hf::sum(y).item<float>();
  std::printf("holdfast %d.%d.%d: the sum is %g\n", hf::kVersionMajor, hf::kVersionMinor,
              hf::kVersionPatch, sum);
  std::puts(sum == 999000.0F ? "ok" : "wrong");
} catch (const hf::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
