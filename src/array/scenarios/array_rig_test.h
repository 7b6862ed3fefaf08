#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/env.h"
#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/kernel.h"
#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/testing/scenario.h"
#include "holdfast/views.h"

namespace holdfast {

struct ArrayRigOptions {
  hal::CpuOptions device = {.queues = 2, .helpers = 0};
  runtime::Options runtime = {.reaper = false};
  kernel::CacheLimits kernels{};
  SubmitLimits submit{};
};

// A device of the world's own, whose compiles are counted and whose disk cache is off. Its default
// stream is this task's for as long as the rig lives; other tasks say `UseStream` themselves.
class ArrayRig {
 public:
  explicit ArrayRig(testing::World& world, const ArrayRigOptions& options = {})
      : ArrayRig(world, world.open(options.device), options) {}
  ~ArrayRig() { world_.detach(device.context().get()); }
  ArrayRig(const ArrayRig&) = delete;
  ArrayRig& operator=(const ArrayRig&) = delete;

  uint64_t compiles() const { return target_->compiles(); }
  Stream stream() const { return device.default_stream(); }
  Stats stats() const { return device.stats(); }

 private:
  ArrayRig(testing::World& world, const Ref<hal::Device>& opened, const ArrayRigOptions& options)
      : world_(world),
        target_(std::make_shared<kernel::CountedTarget>(opened->info())),
        device(opened, {.runtime = options.runtime,
                        .kernels = {.limits = options.kernels, .target = target_, .disk = nullptr},
                        .submit = options.submit}),
        scope_(device.default_stream()) {
    world.attach(device.context().get());
  }

  testing::World& world_;
  std::shared_ptr<kernel::CountedTarget> target_;

 public:
  const Device device;

 private:
  UseStream scope_;
};

// y[i] = EXPRESSION of a[i], for every element, in a's dtype T.
inline Kernel elementwise_kernel(std::string name, const std::string& expression) {
  return Kernel({.name = std::move(name),
                 .inputs = {"a"},
                 .outputs = {"y"},
                 .source = "uint i = thread_position_in_grid.x;\ny[i] = T(" + expression + ");"});
}

// HOLDFAST_TEST_COMPILED=1: what scenarios compute with run() is a compiled function each time.
inline bool runs_compiled() {
  static const bool compiled = env::flag("HOLDFAST_TEST_COMPILED").value_or(false);
  return compiled;
}

inline Array run(const Kernel& kernel, const Array& a, std::string label = {}, const On& on = {}) {
  const auto call = [&](const Array& x) {
    return kernel({x}, {.grid = {static_cast<uint32_t>(x.size()), 1, 1},
                        .threadgroup = {32, 1, 1},
                        .output_shapes = {x.shape()},
                        .output_dtypes = {x.dtype()},
                        .constants = {{"T", x.dtype()}},
                        .label = std::move(label),
                        .on = on})[0];
  };
  if (!runs_compiled()) return call(a);
  std::optional<UseStream> scope;
  if (on.state()) scope.emplace(Stream(on.state()));
  return compile(call)(a);
}

inline std::vector<float> ramp(int64_t length) {
  std::vector<float> values(static_cast<size_t>(length));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace holdfast
