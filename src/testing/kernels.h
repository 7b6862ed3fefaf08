#pragma once

#include <string>
#include <string_view>

#include "holdfast/hal/pipeline.h"
#include "holdfast/testing/family.h"

namespace holdfast::testing {

// The kernels of tests of the runtime, for each family, as descriptions of pipelines. They work on
// bytes, modulo 256, in one group, and take one parameter byte, v:
//   set       0: written.                            out[i] = v
//   add       0: read; 1: written.                   out[i] = in[i] + v
//   affine    0: read and written.                   x[i] = 2 * x[i] + v
//   mix3      0, 1: read; 2: read and written.       z[i] = 2 * z[i] + 3 * x[i] + y[i] + v
// And one that is slow, and reads late, with parameters of its own:
//   slow_add  0: read; 1: written. SlowAdd.          out[i] = in[i] + v
// The name is the pipeline's; by default the kernel's.
struct SlowAdd {
  uint32_t value = 0;
  uint32_t rounds = 0;  // below 65,536: how long it takes
};
hal::PipelineDesc test_kernel(Family family, std::string_view kernel, std::string name = {});

}  // namespace holdfast::testing
