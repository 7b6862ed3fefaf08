#include <holdfast/holdfast.h>

#include <iostream>

namespace hf = holdfast;

int main() {
  const hf::Kernel axpy(
      {.name = "axpy",
       .inputs = {"x", "y"},
       .outputs = {"z"},
       .source = "uint i = thread_position_in_grid.x; z[i] = T(a * x[i] + y[i]);"});
  hf::Array x = hf::arange(6, hf::float32);
  const hf::Array z = axpy({x, hf::ones({6})}, {.grid = {6, 1, 1},  // threads
                                                .threadgroup = {6, 1, 1},
                                                .output_shapes = {{6}},
                                                .output_dtypes = {hf::float32},
                                                .constants = {{"T", hf::float32}},  // compiled in
                                                .params = {{"a", 2.0F}}})[0];       // at run time
  hf::async_eval(z);  // recorded and submitted; nothing waits
  x = hf::Array();    // dropped in flight: its memory stays until the device is done with it
  std::cout << z << "\n" << hf::sum(z) << "\n";  // waits for these two arrays alone
}
