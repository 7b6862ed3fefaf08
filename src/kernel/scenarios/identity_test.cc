// Kernels that share a name, and caches that are changed under them.

#include <algorithm>

#include "holdfast/kernel/scenarios/kernel_rig_test.h"

namespace holdfast::kernel {
namespace {

using testing::World;

constexpr int64_t kLength = 40;

std::vector<float> ramp(int64_t length = kLength) {
  std::vector<float> values(static_cast<size_t>(length));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

std::vector<Float16> halves(const std::vector<float>& values) {
  std::vector<Float16> result;
  for (const float v : values) result.emplace_back(v);
  return result;
}

std::vector<float> floats(const std::vector<Float16>& values) {
  std::vector<float> result;
  for (const Float16 v : values) result.push_back(static_cast<float>(v));
  return result;
}

std::vector<float> mapped(std::vector<float> values, float scale, float offset) {
  for (float& v : values) v = v * scale + offset;
  return values;
}

Kernel elementwise(std::string name, const std::string& expression,
                   MathMode math = MathMode::safe) {
  return Kernel({.name = std::move(name),
                 .inputs = {"a"},
                 .outputs = {"y"},
                 .source = "uint i = thread_position_in_grid.x;\ny[i] = " + expression + ";",
                 .math = math});
}

KERNEL_SCENARIO(mlx_3347_variant_evicted_in_flight) {
  // Room for one variant: each new one evicts the last.
  KernelRig rig(world, {.limits = {.variants = 1}, .disk = nullptr});
  const auto stream = rig.stream("main");
  const Kernel twice = elementwise("N", "a[i] * T(2)");
  const Kernel twice_fast = elementwise("N", "a[i] * T(2) + T(1)", MathMode::fast);
  const TestArray x16 = array_of(*stream, halves(ramp()), "x16");
  const TestArray x32 = array_of(*stream, ramp(), "x32");
  const TestArray y16 = empty_array(*stream, Dtype::float16, kLength, "y16");
  const TestArray y32 = empty_array(*stream, Dtype::float32, kLength, "y32");
  const TestArray z16 = empty_array(*stream, Dtype::float16, kLength, "z16");
  const TestArray z32 = empty_array(*stream, Dtype::float32, kLength, "z32");
  const std::vector<Constant> as_half{{"T", Dtype::float16}};
  const std::vector<Constant> as_float{{"T", Dtype::float32}};

  run_elementwise(rig, *stream, twice, x16, y16, as_half);
  run_elementwise(rig, *stream, twice, x32, y32, as_float);
  rig.kernels.cache().clear();
  run_elementwise(rig, *stream, twice_fast, x16, z16, as_half);
  rig.kernels.cache().set_limits({.variants = 0});
  run_elementwise(rig, *stream, twice_fast, x32, z32, as_float);
  stream->flush();
  rig.kernels.cache().clear();

  EXPECT_EQ(floats(values_of<Float16>(*stream, y16)), mapped(ramp(), 2, 0));
  EXPECT_EQ(values_of<float>(*stream, y32), mapped(ramp(), 2, 0));
  EXPECT_EQ(floats(values_of<Float16>(*stream, z16)), mapped(ramp(), 2, 1));
  EXPECT_EQ(values_of<float>(*stream, z32), mapped(ramp(), 2, 1));
}

KERNEL_SCENARIO(mlx_3832_same_name_other_source) {
  for (const bool build_first : {false, true}) {
    for (const bool run_first : {false, true}) {
      KernelRig rig(world);
      const auto stream = rig.stream("main");
      const Kernel built_first = elementwise("k", build_first ? "a[i] * 2" : "a[i] + 100");
      const Kernel built_second = elementwise("k", build_first ? "a[i] + 100" : "a[i] * 2");
      const Kernel& twice = build_first ? built_first : built_second;
      const Kernel& plus = build_first ? built_second : built_first;
      const TestArray x = array_of(*stream, ramp(), "x");
      const TestArray y = empty_array(*stream, Dtype::float32, kLength, "y");
      const TestArray z = empty_array(*stream, Dtype::float32, kLength, "z");
      if (run_first) run_elementwise(rig, *stream, twice, x, y);
      run_elementwise(rig, *stream, plus, x, z);
      if (!run_first) run_elementwise(rig, *stream, twice, x, y);
      EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 2, 0));
      EXPECT_EQ(values_of<float>(*stream, z), mapped(ramp(), 1, 100));
    }
  }
}

KERNEL_SCENARIO(mlx_4275_same_name_across_evaluations) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const TestArray x = array_of(*stream, ramp(), "x");
  for (int round = 0; round < 3; ++round) {
    const Kernel kernel = elementwise("k", "a[i] + " + std::to_string(round));
    const TestArray y = empty_array(*stream, Dtype::float32, kLength, "y");
    run_elementwise(rig, *stream, kernel, x, y);
    EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 1, static_cast<float>(round)));
  }
}

// The memory of the first is given to the second: were they told apart by address, the second
// would run the first one's code.
KERNEL_SCENARIO(mlx_4275_kernel_object_rebuilt_at_the_same_address) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const TestArray x = array_of(*stream, ramp(), "x");
  const TestArray y = empty_array(*stream, Dtype::float32, kLength, "y");
  auto kernel = std::make_unique<Kernel>(elementwise("k", "a[i] * 2"));
  run_elementwise(rig, *stream, *kernel, x, y);
  EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 2, 0));
  kernel.reset();
  kernel = std::make_unique<Kernel>(elementwise("k", "a[i] * 3"));
  run_elementwise(rig, *stream, *kernel, x, y);
  EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 3, 0));
}

KERNEL_SCENARIO(mlx_3624_failing_compile_leaves_no_entry) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const Kernel broken = elementwise("k", "a[i] +* 2");
  const TestArray x = array_of(*stream, ramp(), "x");
  const TestArray y = empty_array(*stream, Dtype::float32, kLength, "y");
  std::string first;
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      run_elementwise(rig, *stream, broken, x, y);
      ADD_FAILURE() << "a broken kernel compiled";
    } catch (const UsageError& error) {
      if (first.empty()) first = error.what();
      EXPECT_EQ(error.what(), first);
    }
    EXPECT_EQ(rig.kernels.cache().stats().variants, 0U);
  }
  EXPECT_NE(first.find("'k'"), std::string::npos) << first;
  EXPECT_NE(first.find("a[i] +* 2"), std::string::npos) << first;
  run_elementwise(rig, *stream, elementwise("k", "a[i] + 2"), x, y);
  EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 1, 2));
}

KERNEL_SCENARIO(godot_96052_many_threads_one_compile) {
  KernelRig rig(world);
  // A simulated task is a whole stack of choices; eight show as much.
  const size_t tasks = world.mode() == World::Mode::adversary ? 8 : 32;
  const Kernel kernel = elementwise("k", "a[i] * 5");
  std::vector<sync::Thread> threads;
  for (size_t t = 0; t < tasks; ++t) {
    threads.push_back(world.task("t" + std::to_string(t), [&rig, &kernel, t] {
      const auto stream = rig.stream("s" + std::to_string(t));
      const TestArray x = array_of(*stream, ramp(), "x");
      const TestArray y = empty_array(*stream, Dtype::float32, kLength, "y");
      run_elementwise(rig, *stream, kernel, x, y);
      EXPECT_EQ(values_of<float>(*stream, y), mapped(ramp(), 5, 0));
    }));
  }
  threads.clear();
  if (world.has_faults()) return;
  const CacheStats stats = rig.kernels.cache().stats();
  EXPECT_EQ(rig.target->compiles(), 1U);
  EXPECT_EQ(stats.compiles, 1U);
  EXPECT_EQ(stats.hits + stats.misses, tasks);
}

KERNEL_SCENARIO(quadrants_649_same_kernel_twice_with_other_params) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const auto other = rig.stream("other");
  const Kernel kernel({.name = "k",
                       .inputs = {"a"},
                       .outputs = {"y"},
                       .source = "uint i = thread_position_in_grid.x; y[i] = a[i] + by;"});
  const TestArray x = array_of(*stream, ramp(), "x");
  std::vector<TestArray> results;
  for (int i = 0; i < 6; ++i) {
    results.push_back(empty_array(*stream, Dtype::float32, kLength, "y"));
    const std::array in{x.ref()};
    const std::array out{results.back().ref()};
    const std::array<Param, 1> params{{{"by", static_cast<float>(i)}}};
    rig.kernels.launch(i % 2 == 0 ? *stream : *other, kernel,
                       {.inputs = in,
                        .outputs = out,
                        .grid = {kLength, 1, 1},
                        .threadgroup = {16, 1, 1},
                        .params = params});
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(values_of<float>(*stream, results[static_cast<size_t>(i)]),
              mapped(ramp(), 1, static_cast<float>(i)));
  }
  EXPECT_EQ(rig.target->compiles(), 1U);
}

}  // namespace
}  // namespace holdfast::kernel
