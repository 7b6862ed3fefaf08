// Kernels that share a name, and kernels that go away while a list still needs them.

#include <array>

#include "holdfast/array/scenarios/interlude_test.h"

namespace holdfast {
namespace {

using testing::Gate;
using testing::World;

constexpr int64_t kIdentityLength = 40;

const Kernel& twice_by_identity() {
  static const Kernel kernel = elementwise_kernel("N", "a[i] * T(2)");
  return kernel;
}
// Another kernel of that name, and of other options.
const Kernel& twice_plus_one() {
  static const Kernel kernel(
      {.name = "N",
       .inputs = {"a"},
       .outputs = {"y"},
       .source = "uint i = thread_position_in_grid.x;\ny[i] = T(a[i] * T(2) + T(1));",
       .math = MathMode::fast});
  return kernel;
}

// mlx#3347: the cache has room for one variant, so each node of the list evicts the variant of the
// one before it; then the cache is emptied while the list is in flight.
ARRAY_SCENARIO(mlx_3347_variant_evicted_in_flight) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, {.kernels = {.variants = 1}, .submit = kOneList});
  const Array x16(halves(ramp(kIdentityLength)));
  const Array x32(ramp(kIdentityLength));
  Gate gate(*rig.device.context());
  hold(rig.stream(), gate);
  const Stats before = rig.stats();
  const Array y16 = run(twice_by_identity(), x16);
  const Array y32 = run(twice_by_identity(), x32);
  const Array z16 = run(twice_plus_one(), x16);
  const Array z32 = run(twice_plus_one(), x32);
  async_eval(y16, y32, z16, z32);
  if (!world.has_faults()) {
    EXPECT_LE(rig.stats().kernels.variants, 1U);
    EXPECT_GE(rig.stats().kernels.evictions, 3U);
  }
  rig.device.clear_kernels();
  rig.device.set_kernel_limits({.variants = 0});
  if (!world.has_faults()) {
    const Stats now = rig.stats();
    EXPECT_EQ(now.kernels.variants, 0U);
    EXPECT_EQ(now.runtime.submissions - before.runtime.submissions, 1U) << "one list has them all";
    EXPECT_EQ(now.runtime.submissions_in_flight, 1U);
    EXPECT_EQ(now.runtime.wait_count(), 0U);
  }
  gate.open();
  EXPECT_EQ(floats(y16.to_vector<Float16>()), mapped(ramp(kIdentityLength), 2, 0));
  EXPECT_EQ(y32.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 0));
  EXPECT_EQ(floats(z16.to_vector<Float16>()), mapped(ramp(kIdentityLength), 2, 1));
  EXPECT_EQ(z32.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 1));
}

// The cache is emptied and its limits change between two nodes of one list that was not submitted.
ARRAY_SCENARIO(mlx_3347_cache_cleared_and_limits_changed_inside_a_list) {
  ArrayRig rig(world, {.submit = kOneList});
  const auto clear = [&] { rig.device.clear_kernels(); };
  const auto forbid = [&] { rig.device.set_kernel_limits({.variants = 0}); };
  const auto allow = [&] { rig.device.set_kernel_limits({}); };
  const Array x(halves(ramp(kIdentityLength)));
  const uint64_t submitted = rig.stats().runtime.submissions;
  Array y = interlude(run(twice_by_identity(), x), clear);
  y = interlude(run(twice_by_identity(), astype(y, float32)), forbid);
  y = interlude(run(twice_plus_one(), y), allow);
  y = interlude(run(twice_by_identity(), astype(y, float16)), clear);
  async_eval(y);
  if (!world.has_faults()) {
    const Stats stats = rig.stats();
    EXPECT_EQ(stats.runtime.submissions - submitted, 1U);
    EXPECT_EQ(stats.nodes_recorded, 10U);
    EXPECT_GT(stats.kernels.compiles, 5U) << "what was cleared had to be made again";
    EXPECT_EQ(stats.kernels.variants, 0U);
  }
  EXPECT_EQ(floats(y.to_vector<Float16>()), mapped(ramp(kIdentityLength), 16, 2));
}

// mlx PR 3434: a task that does nothing but evict, while others evaluate both variants.
ARRAY_SCENARIO(mlx_3434_another_task_evicts_while_graphs_are_recorded) {
  ArrayRig rig(world);
  const bool simulated = world.mode() == World::Mode::adversary;
  const auto evictor = world.task("evictor", [&rig, simulated] {
    for (int i = 0; i < (simulated ? 4 : 200); ++i) {
      rig.device.set_kernel_limits({.variants = static_cast<size_t>(i) % 2});
      rig.device.clear_kernels();
    }
  });
  const Array x(halves(ramp(kIdentityLength)));
  for (int round = 0; round < (simulated ? 2 : 20); ++round) {
    const Array y16 = run(twice_by_identity(), x);
    const Array y32 = run(twice_by_identity(), astype(y16, float32));
    const Array z32 = run(twice_plus_one(), y32);
    async_eval(z32, y16);
    EXPECT_EQ(z32.to_vector<float>(), mapped(ramp(kIdentityLength), 8, 1));
    EXPECT_EQ(floats(y16.to_vector<Float16>()), mapped(ramp(kIdentityLength), 2, 0));
  }
}

// mlx#3832: two kernels of one name in one evaluation: whichever is made, called or evaluated
// first, each runs its own code.
ARRAY_SCENARIO(mlx_3832_same_name_other_source) {
  ArrayRig rig(world);
  const Array x(ramp(kIdentityLength));
  uint64_t rounds = 0;
  for (const bool made_first : {false, true}) {
    for (const bool called_first : {false, true}) {
      for (const bool evaluated_first : {false, true}) {
        const std::array<std::string, 2> text{made_first ? "a[i] * 2" : "a[i] + 100",
                                              made_first ? "a[i] + 100" : "a[i] * 2"};
        const std::array made{elementwise_kernel("k", text[0]), elementwise_kernel("k", text[1])};
        const Kernel& by_two = made[made_first ? 0 : 1];
        const Kernel& plus = made[made_first ? 1 : 0];
        Array y;
        Array z;
        if (called_first) y = run(by_two, x);
        z = run(plus, x);
        if (!called_first) y = run(by_two, x);
        if (evaluated_first) {
          async_eval(y, z);
        } else {
          async_eval(z, y);
        }
        EXPECT_EQ(y.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 0));
        EXPECT_EQ(z.to_vector<float>(), mapped(ramp(kIdentityLength), 1, 100));
        ++rounds;
      }
    }
  }
  if (world.has_faults()) return;
  const kernel::CacheStats stats = rig.stats().kernels;
  EXPECT_EQ(stats.compiles, 2U) << "one for each source, however many kernels have it";
  EXPECT_EQ(stats.shared, 2 * rounds - 2);
  EXPECT_EQ(stats.variants, 2U);
}

// Each reads what the other one made: an order that is wrong shows, too.
ARRAY_SCENARIO(mlx_3832_same_name_other_source_in_a_chain) {
  ArrayRig rig(world, {.submit = kOneList});
  const Kernel by_two = elementwise_kernel("k", "a[i] * 2");
  const Kernel plus = elementwise_kernel("k", "a[i] + 100");
  const Array x(ramp(kIdentityLength));
  const Array y = run(plus, run(by_two, run(plus, x)));
  const Array z = run(by_two, run(plus, run(by_two, x)));
  async_eval(y, z);
  EXPECT_EQ(y.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 300));
  EXPECT_EQ(z.to_vector<float>(), mapped(ramp(kIdentityLength), 4, 200));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.compiles(), 2U);
  }
}

// mlx#4275: the same over several evaluations.
ARRAY_SCENARIO(mlx_4275_same_name_across_evaluations) {
  ArrayRig rig(world);
  const Array x(ramp(kIdentityLength));
  for (int round = 0; round < 6; ++round) {
    const int by = round % 3;
    const Kernel kernel = elementwise_kernel("k", "a[i] + " + std::to_string(by));
    EXPECT_EQ(run(kernel, x).to_vector<float>(),
              mapped(ramp(kIdentityLength), 1, static_cast<float>(by)));
  }
  if (!world.has_faults()) {
    EXPECT_EQ(rig.compiles(), 3U) << "three sources, each twice_by_identity";
  }
}

// The memory of the first kernel is given to the second, while a node of the first is not evaluated
// yet. Told apart by address, one of them would run the other's code.
ARRAY_SCENARIO(mlx_4275_kernel_object_rebuilt_at_the_same_address) {
  ArrayRig rig(world);
  const Array x(ramp(kIdentityLength));
  auto kernel = std::make_unique<Kernel>(elementwise_kernel("k", "a[i] * 2"));
  const Array evaluated = run(*kernel, x);
  EXPECT_EQ(evaluated.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 0));
  const Array waiting = run(*kernel, x);
  kernel.reset();
  kernel = std::make_unique<Kernel>(elementwise_kernel("k", "a[i] * 3"));
  const Array other = run(*kernel, x);
  kernel.reset();
  async_eval(other, waiting);
  EXPECT_EQ(other.to_vector<float>(), mapped(ramp(kIdentityLength), 3, 0));
  EXPECT_EQ(waiting.to_vector<float>(), mapped(ramp(kIdentityLength), 2, 0));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.compiles(), 2U);
  }
}

}  // namespace
}  // namespace holdfast
