// Arrays that are dropped, and memory that is taken back, while somebody still needs it.

#include "holdfast/array/scenarios/interlude_test.h"

namespace holdfast {
namespace {

using runtime::WaitReason;
using testing::Event;
using testing::Gate;
using testing::World;

constexpr int64_t kSide = 8;
constexpr int64_t kLifeLength = kSide * kSide;
constexpr Bytes kSize{kLifeLength * sizeof(float)};

const Kernel& plus_one_of_life() {
  static const Kernel kernel = elementwise_kernel("plus_one_of_life", "a[i] + T(1)");
  return kernel;
}

// The elements of a square matrix, column after column.
std::vector<float> turned(std::vector<float> values) {
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      std::swap(values[static_cast<size_t>(i * kSide + j)],
                values[static_cast<size_t>(j * kSide + i)]);
    }
  }
  return values;
}

Array square(float offset) { return Array(mapped(ramp(kLifeLength), 1, offset), {kSide, kSide}); }

std::vector<float> all(float value) { return mapped(ramp(kLifeLength), 0, value); }

// mlx PR 3378: the kernel wants rows, so a copy is made that nobody sees. Whoever allocates next,
// on this stream or on another, asks for memory of its size.
void hidden_copy(World& world, bool host_visible) {
  ArrayRig rig(world,
               {.device = {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible}});
  const Stream other = rig.device.new_stream("other");
  eval(run(plus_one_of_life(), transpose(square(0))));
  const Stats before = rig.stats();
  Array first_in = square(10);
  Array second_in = square(20);
  eval(first_in, second_in);
  Array first;
  Array second;
  Array greedy;
  {
    Gate gate(*rig.device.context());
    hold(rig.stream(), gate);
    first = run(plus_one_of_life(), transpose(first_in));
    first_in = Array();
    async_eval(first);
    rig.device.clear_cache();
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().hidden_copies - before.hidden_copies, 1U);
      EXPECT_GE(rig.stats().runtime.memory.deferred, kSize * 2)
          << "the copy and what it was made of";
    }
    const auto next = world.task("next", [&] {
      greedy = full({kLifeLength}, 99, float32, other);
      async_eval(greedy);
    });
    second = run(plus_one_of_life(), transpose(second_in));
    second_in = Array();
    async_eval(second);
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().hidden_copies - before.hidden_copies, 2U);
    }
  }
  EXPECT_EQ(first.to_vector<float>(), turned(mapped(ramp(kLifeLength), 1, 11)));
  EXPECT_EQ(second.to_vector<float>(), turned(mapped(ramp(kLifeLength), 1, 21)));
  EXPECT_EQ(greedy.to_vector<float>(), all(99));
}

ARRAY_SCENARIO(mlx_3378_hidden_copy_is_not_given_to_the_next_operation_too_early) {
  hidden_copy(world, true);
}

ARRAY_SCENARIO(mlx_3378_hidden_copy_on_a_discrete_device) { hidden_copy(world, false); }

// Each step needs a copy, and the copies of earlier steps go round inside one list.
ARRAY_SCENARIO(mlx_3378_hidden_copies_go_round_inside_a_list) {
  ArrayRig rig(world, {.submit = kOneList});
  eval(run(plus_one_of_life(), transpose(square(0))));
  const Stats before = rig.stats();
  Array x = square(0);
  constexpr uint64_t kSteps = 6;
  for (uint64_t i = 0; i < kSteps; ++i) x = run(plus_one_of_life(), transpose(x));
  EXPECT_EQ(x.to_vector<float>(), mapped(ramp(kLifeLength), 1, kSteps));
  if (world.has_faults()) return;
  const Stats now = rig.stats();
  EXPECT_EQ(now.hidden_copies - before.hidden_copies, kSteps);
  EXPECT_GT(now.runtime.memory.reused_in_order, before.runtime.memory.reused_in_order);
  EXPECT_LE(now.runtime.memory.live_peak, kSize * 8) << "not two for each step";
}

// mlx#3689: a graph is evaluated, its inputs are dropped, and others allocate. `meddle` comes
// between every two steps of that, inside a list that is not submitted too.
void meddled_timeline(World& world, const ArrayRigOptions& options,
                      const std::function<void(const Device&, int)>& meddle) {
  ArrayRig rig(world, options);
  const Stream other = rig.device.new_stream("other");
  int count = 0;
  const auto point = [&] { meddle(rig.device, count++); };
  const int rounds = world.mode() == World::Mode::adversary ? 1 : 10;
  for (int round = 0; round < rounds; ++round) {
    point();
    Array x = square(5);
    point();
    Array y = run(plus_one_of_life(), transpose(x));
    point();
    Array z = run(plus_one_of_life(), interlude(y, point));
    const Array w = run(plus_one_of_life(), interlude(z, point));
    point();
    async_eval(w);
    point();
    x = Array();
    point();
    y = Array();
    z = Array();
    point();
    std::vector<Array> nexts;
    for (int i = 1; i <= 4; ++i) {
      const Array next = full({i * kLifeLength}, i, float32, i % 2 == 0 ? other : rig.stream());
      async_eval(next);
      point();
      // Two of them are dropped in flight as well.
      if (i > 2) nexts.push_back(next);
    }
    EXPECT_EQ(w.to_vector<float>(), turned(mapped(ramp(kLifeLength), 1, 8)));
    point();
    for (int i = 3; i <= 4; ++i) {
      const std::vector<float> values = nexts[static_cast<size_t>(i - 3)].to_vector<float>();
      EXPECT_EQ(values,
                std::vector<float>(static_cast<size_t>(i * kLifeLength), static_cast<float>(i)));
      point();
    }
  }
  if (world.has_faults()) return;
  EXPECT_GE(count, 12 * rounds);
  EXPECT_EQ(rig.stats().hidden_copies, 3 * static_cast<uint64_t>(rounds))
      << "of what is not contiguous, and of y and z, which are still seen when they are passed on";
  EXPECT_EQ(rig.stats().nodes_failed, 0U);
}

ARRAY_SCENARIO(mlx_3689_clear_cache_between_every_two_steps) {
  meddled_timeline(world, {.submit = kOneList}, [](const Device& device, int) {
    device.clear_cache();
    // What is left free lies in blocks that somebody uses.
    if (device.stats().active_memory() == Bytes{} &&
        device.stats().runtime.memory.deferred == Bytes{}) {
      EXPECT_EQ(device.stats().cache_memory(), Bytes{});
    }
  });
}

ARRAY_SCENARIO(mlx_3689_cache_limit_changes_between_every_two_steps) {
  meddled_timeline(world, {.submit = kOneList}, [](const Device& device, int i) {
    device.set_cache_limit(i % 2 == 0 ? Bytes{} : 1_MiB);
  });
}

ARRAY_SCENARIO(mlx_3689_memory_limit_changes_between_every_two_steps) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  meddled_timeline(world, {.submit = kOneList}, [](const Device& device, int i) {
    device.set_memory_limit(i % 2 == 0 ? 64_KiB : Bytes{});
  });
}

ARRAY_SCENARIO(mlx_3689_everything_changes_between_every_two_steps) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  meddled_timeline(world, {.submit = kOneList}, [](const Device& device, int i) {
    device.set_memory_limit(i % 3 == 0 ? 64_KiB : Bytes{});
    device.set_cache_limit(i % 2 == 0 ? Bytes{} : 4_KiB);
    device.clear_cache();
  });
}

// Allocates, drops and never waits, until there is no room that is not in flight: the pool gives
// back what it can, then waits for the oldest; what is in flight is not touched.
ARRAY_SCENARIO(mlx_3689_allocate_until_the_pool_trims) {
  constexpr Bytes kLimit = 64_KiB;
  ArrayRig rig(world, {.runtime = {.memory_limit = kLimit, .reaper = false}});
  const bool simulated = world.mode() == World::Mode::adversary;
  const Stream other = rig.device.new_stream("other");
  Array x = square(3);
  const Array y = run(plus_one_of_life(), transpose(x));
  async_eval(y);
  x = Array();
  for (int64_t i = 1; i <= (simulated ? 12 : 400); ++i) {
    // Of sizes that do not fit in what the last ones left.
    const int64_t length = 1024 * (1 + i % 5) + 64 * i % 1024;
    const Array next = full({length}, static_cast<double>(i), float32, i % 2 == 0 ? other : On());
    const Array after = run(plus_one_of_life(), next);
    async_eval(after);
    if (i % 4 == 0) {
      EXPECT_EQ(index(after, length - 1).item<float>(), static_cast<float>(i + 1));
    }
  }
  EXPECT_EQ(y.to_vector<float>(), turned(mapped(ramp(kLifeLength), 1, 4)));
  if (world.has_faults()) return;
  EXPECT_LE(rig.stats().runtime.memory.reserved_peak, kLimit);
  EXPECT_EQ(rig.stats().runtime.waits_for(WaitReason::budget).count, 0U);
}

// Arrays of host data take the place of inputs that are dead and that the device has not read yet:
// nobody waits for that, and nobody overwrites them.
void host_data_in_flight(World& world, bool host_visible) {
  ArrayRig rig(world,
               {.device = {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible}});
  eval(run(plus_one_of_life(), transpose(square(0))));
  rig.device.synchronize();
  const uint64_t waits = rig.stats().runtime.wait_count();
  std::vector<Array> results;
  {
    Gate gate(*rig.device.context());
    hold(rig.stream(), gate);
    for (int i = 0; i < 4; ++i) {
      results.push_back(run(plus_one_of_life(), transpose(square(static_cast<float>(100 * i)))));
      async_eval(results.back());
      rig.device.clear_cache();
    }
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().runtime.wait_count(), waits);
      EXPECT_EQ(rig.stats().runtime.submissions_in_flight, 4U);
      EXPECT_GE(rig.stats().runtime.memory.deferred, kSize);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].to_vector<float>(),
              turned(mapped(ramp(kLifeLength), 1, static_cast<float>(100 * i + 1))));
  }
}

ARRAY_SCENARIO(mlx_3689_host_data_beside_inputs_in_flight) { host_data_in_flight(world, true); }

ARRAY_SCENARIO(mlx_3689_host_data_beside_inputs_in_flight_on_a_discrete_device) {
  host_data_in_flight(world, false);
}

// Set in any case, also where a fault ends the scope.
class SetAtEnd {
 public:
  explicit SetAtEnd(Event& event) : event_(event) {}
  ~SetAtEnd() { event_.set(); }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  Event& event_;
};

// playcanvas#8652: the last Array of something goes between the recording of its reader and the
// submission of the list; at that very moment another task allocates, writes and submits.
ARRAY_SCENARIO(playcanvas_8652_drop_between_record_and_submit) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, {.submit = kOneList});
  const Stream other = rig.device.new_stream("other");
  // Compiled already, so that nothing is recorded twice.
  eval(run(plus_one_of_life(), square(0)), full({kLifeLength}, 99));
  const auto x = std::make_shared<Array>(square(4));
  Event dropped;
  Event taken;
  Array greedy;
  const auto taker = world.task("taker", [&] {
    const SetAtEnd done(taken);
    if (!dropped.wait()) return;
    greedy = full({kLifeLength}, 99, float32, other);
    async_eval(greedy);
  });
  const SetAtEnd dropped_in_any_case(dropped);
  const uint64_t submitted = rig.stats().runtime.submissions;
  const Array y = run(plus_one_of_life(), *x);
  const Array z = interlude(run(plus_one_of_life(), y), [&] {
    *x = Array();
    rig.device.clear_cache();
    dropped.set();
    EXPECT_TRUE(taken.wait());
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().runtime.submissions - submitted, 1U) << "the taker's alone";
    }
  });
  // It asks for memory of that size in the same list.
  const Array w = run(plus_one_of_life(), run(plus_one_of_life(), z));
  async_eval(w);
  EXPECT_FALSE(x->has_value());
  EXPECT_EQ(w.to_vector<float>(), mapped(ramp(kLifeLength), 1, 8));
  EXPECT_EQ(y.to_vector<float>(), mapped(ramp(kLifeLength), 1, 5));
  EXPECT_EQ(greedy.to_vector<float>(), all(99));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.submissions - submitted, 2U);
  }
}

// The same by another task, at whatever time; whoever allocates next must not get the bytes.
ARRAY_SCENARIO(playcanvas_8652_drop_by_another_task_while_it_is_recorded) {
  ArrayRig rig(world);
  const auto x = std::make_shared<Array>(square(4));
  const Array y = run(plus_one_of_life(), *x);
  const Array z = run(plus_one_of_life(), transpose(*x));
  const auto dropper = world.task("dropper", [&rig, x] {
    const UseStream scope(rig.stream());
    *x = Array();
    rig.device.clear_cache();
    EXPECT_EQ(full({kLifeLength}, 99).to_vector<float>(), all(99));
  });
  async_eval(y, z);
  EXPECT_EQ(y.to_vector<float>(), mapped(ramp(kLifeLength), 1, 5));
  EXPECT_EQ(z.to_vector<float>(), turned(mapped(ramp(kLifeLength), 1, 5)));
}

// A graph that nobody evaluates any more is dropped while another evaluation records a part of it.
ARRAY_SCENARIO(playcanvas_8652_graph_dropped_while_a_part_of_it_is_recorded) {
  ArrayRig rig(world);
  Array shared = run(plus_one_of_life(), square(1));
  auto rest = std::make_shared<std::vector<Array>>();
  for (int i = 0; i < 4; ++i) {
    rest->push_back(run(plus_one_of_life(), rest->empty() ? shared : rest->back()));
  }
  world.offer([rest] { rest->clear(); });
  const Array kept = run(plus_one_of_life(), shared);
  shared = Array();
  const auto dropper = world.task("dropper", [rest] { rest->clear(); });
  EXPECT_EQ(kept.to_vector<float>(), mapped(ramp(kLifeLength), 1, 3));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().nodes_recorded, 2U) << "nobody wanted the rest";
  }
}

Array plus(const Array& x, std::vector<Param>& params, const On& on = {}) {
  static const Kernel kernel({.name = "plus",
                              .inputs = {"a"},
                              .outputs = {"y"},
                              .source = "uint i = thread_position_in_grid.x;\ny[i] = a[i] + by;"});
  Array y = kernel({x}, {.grid = {static_cast<uint32_t>(x.size()), 1, 1},
                         .threadgroup = {16, 1, 1},
                         .output_shapes = {x.shape()},
                         .output_dtypes = {float32},
                         .params = params,
                         .on = on})[0];
  params.front().value = -1000.0F;  // the caller's variable is its own again
  return y;
}

// quadrants#649: one kernel with other parameters each time, in one list.
ARRAY_SCENARIO(quadrants_649_each_call_of_a_list_reads_its_own_parameters) {
  ArrayRig rig(world, {.submit = kOneList});
  const Array x = square(0);
  const uint64_t submitted = rig.stats().runtime.submissions;
  std::vector<Array> results;
  std::vector<Param> params{{"by", 0.0F}};
  for (int i = 0; i < 6; ++i) {
    params.front().value = static_cast<float>(10 * i);
    results.push_back(plus(x, params));
  }
  async_eval(results);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.submissions - submitted, 1U);
    EXPECT_EQ(rig.compiles(), 1U);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].to_vector<float>(),
              mapped(ramp(kLifeLength), 1, static_cast<float>(10 * i)));
  }
}

// And on two streams, by two tasks, on arrays that both read.
ARRAY_SCENARIO(quadrants_649_each_call_on_two_streams_reads_its_own_parameters) {
  ArrayRig rig(world);
  const Array x = square(0);
  const auto call_on = [&x](const Stream& stream, int base) {
    std::vector<Array> results;
    std::vector<Param> params{{"by", 0.0F}};
    for (int i = 0; i < 3; ++i) {
      params.front().value = static_cast<float>(base + i);
      results.push_back(plus(x, params, stream));
      async_eval(results.back());
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(results[static_cast<size_t>(i)].to_vector<float>(),
                mapped(ramp(kLifeLength), 1, static_cast<float>(base + i)));
    }
  };
  const auto beside = world.task("beside", [&] { call_on(rig.device.new_stream("b"), 500); });
  call_on(rig.stream(), 100);
}

}  // namespace
}  // namespace holdfast
