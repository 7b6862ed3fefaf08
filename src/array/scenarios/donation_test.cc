#include <array>

#include "holdfast/array/scenarios/array_kernels_test.h"

// Memory that is used again: in place, and through another view.
namespace holdfast {
namespace {

using ::testing::Each;
using testing::Gate;
using testing::patient;
using testing::World;

// mlx#3630: one node reads g, another one gets g's memory for its result. On one stream, in
// whichever order the results are asked for: a barrier, and no copy.
ARRAY_SCENARIO(mlx_3630_donated_memory_is_written_after_its_readers) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  const Floats g_values = mapped(ramp(kLength), [](float v) { return v + 1; });
  for (const bool reader_first : {true, false}) {
    ArrayRig rig(world);
    Array g = run(plus_one(), Array(ramp(kLength)), "g");
    const Array read = run(plus_one(), g, "reads g");
    const Array written = double_in_place(std::move(g));
    if (reader_first) {
      async_eval(read, written);
    } else {
      async_eval(written, read);
    }
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().donated, 1U);
      EXPECT_EQ(rig.stats().hidden_copies, 0U);
      EXPECT_EQ(rig.stats().runtime.barriers, 2U) << "after g, and between reader and writer";
    }
    EXPECT_EQ(read.to_vector<float>(), mapped(g_values, [](float v) { return v + 1; }));
    EXPECT_EQ(written.to_vector<float>(), mapped(g_values, [](float v) { return 2 * v; }));
  }
}

// Across streams: the reader is held up, and so is the writer, on the device.
ARRAY_SCENARIO(mlx_3630_donated_memory_is_written_after_readers_on_another_stream) {
  ArrayRig rig(world, {.device = {.queues = 3, .helpers = 0}});
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  const Stream c = rig.device.new_stream("c");
  Gate gate(*rig.device.context());
  Array g = run(plus_one(), filled(2, a), "g", a);
  g.eval(patient());
  b.runtime_stream()->wait_for(gate.point());
  const Array read = run(plus_one(), g, "reads g", b);
  async_eval(read);
  const Array written = double_in_place(std::move(g), a);
  async_eval(written);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().donated, 1U);
    EXPECT_EQ(rig.stats().hidden_copies, 0U);
    EXPECT_EQ(rig.stats().runtime.wait_count(),
              waits(rig, runtime::WaitReason::point) + waits(rig, runtime::WaitReason::readback))
        << "the device waits, not the host";
  }
  // Time for a writer that does not wait.
  filled(5, c).eval(patient());
  gate.open();
  EXPECT_THAT(read.to_vector<float>(), Each(4.0F));
  EXPECT_THAT(written.to_vector<float>(), Each(6.0F));
}

// And where readers are recorded by another task at the same time: donated or copied, whichever it
// is, each sees its own.
ARRAY_SCENARIO(mlx_3630_reader_and_writer_are_recorded_by_two_tasks) {
  ArrayRig rig(world);
  const Stream b = rig.device.new_stream("b");
  Array g = run(plus_one(), filled(2, rig.stream()), "g");
  auto reader = world.task("reader", [&, read = run(plus_one(), g, "reads g", b)] {
    EXPECT_THAT(read.to_vector<float>(), Each(4.0F));
  });
  const Array written = double_in_place(double_in_place(std::move(g)));
  EXPECT_THAT(written.to_vector<float>(), Each(12.0F));
  reader.join();
  const Stats stats = rig.stats();
  if (!world.has_faults()) {
    EXPECT_EQ(stats.donated + stats.hidden_copies, 2U);
    EXPECT_GE(stats.donated, 1U) << "the second one has the first one's result for itself";
  }
}

// llama.cpp#15929: views. Writes through slices that do not overlap need no order among each other:
// three of them, in the array's own memory, are one wave.
ARRAY_SCENARIO(llama_cpp_15929_disjoint_slices_share_a_wave) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world);
  Array x(ramp(96), {96}, "x");
  const Array read = run(plus_one(), slice(x, {{.start = 0, .stop = 32}}), "reads the first third");
  async_eval(read);
  for (const int64_t third : {1, 2}) {
    const Array update(Floats(32, -static_cast<float>(third)), {32});
    x = slice_update(std::move(x), update, {{.start = 32 * third, .stop = 32 * (third + 1)}});
  }
  async_eval(x);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().donated, 2U);
    EXPECT_EQ(rig.stats().hidden_copies, 0U);
    EXPECT_EQ(rig.stats().runtime.barriers, 0U);
  }
  const Floats all = x.to_vector<float>();
  for (size_t i = 0; i < 96; ++i) {
    ASSERT_EQ(all[i], i < 32 ? static_cast<float>(i) : i < 64 ? -1.0F : -2.0F) << i;
  }
  EXPECT_EQ(read.to_vector<float>(), mapped(ramp(32), [](float v) { return v + 1; }));
}

// A write through one slice, a read through one that overlaps: those recorded before it see what
// was there, and those after it what it wrote. `rows`: strided slices, whose gaps do not conflict
// but whose reach does.
void overlap(World& world, bool rows) {
  ArrayRig rig(world);
  const Stream b = rig.device.new_stream("b");
  Array x = reshape(run(plus_one(), Array(ramp(96))), {8, 12});
  const auto part = [&](const Array& of, int64_t start, int64_t stop) {
    return rows ? slice(of, {{.start = start, .stop = stop}})
                : slice(of, {{}, {.start = start, .stop = stop}});
  };
  const Array before = run(plus_one(), part(x, 0, 4), "before");
  const Array before_on_b = run(plus_one(), part(x, 2, 6), "before, on b", b);
  async_eval(before, before_on_b);
  const uint64_t barriers = rig.stats().runtime.barriers;
  const Array update = full({}, -7);
  x = rows ? slice_update(std::move(x), update, {{.start = 2, .stop = 5}})
           : slice_update(std::move(x), update, {{}, {.start = 2, .stop = 5}});
  const Array after = run(plus_one(), part(x, 4, 8), "after");
  const Array after_on_b = run(plus_one(), part(x, 0, 3), "after, on b", b);
  async_eval(after, after_on_b);
  if (!world.has_faults()) {
    EXPECT_GE(rig.stats().donated, 1U) << "in the array's own memory";
    EXPECT_GT(rig.stats().runtime.barriers, barriers);
  }
  const auto expect = [&](const Array& got, int64_t start, bool updated) {
    const Floats values = got.to_vector<float>();
    const int64_t width = got.shape(1);
    for (int64_t i = 0; i < got.size(); ++i) {
      const int64_t row = i / width + (rows ? start : 0);
      const int64_t column = i % width + (rows ? 0 : start);
      const int64_t along = rows ? row : column;
      const bool written = updated && along >= 2 && along < 5;
      const float expected = written ? -6.0F : static_cast<float>(12 * row + column + 2);
      ASSERT_EQ(values[static_cast<size_t>(i)], expected)
          << got.name() << " row " << row << " " << column;
    }
  };
  expect(after_on_b, 0, true);
  expect(before, 0, false);
  expect(before_on_b, 2, false);
  expect(after, 4, true);
}

ARRAY_SCENARIO(llama_cpp_15929_overlapping_rows_are_ordered) { overlap(world, true); }

ARRAY_SCENARIO(llama_cpp_15929_overlapping_columns_are_ordered) { overlap(world, false); }

// jax#39625: a node with several in_place arguments and an output: whichever array goes where, and
// in whichever order the results are asked for, each result is its own and nothing is copied.
const Kernel& three_in_place() {
  static const Kernel kernel({.name = "three_in_place",
                              .inputs = {"w"},
                              .outputs = {"y"},
                              .in_place = {"a", "b", "c"},
                              .source = R"(
uint i = thread_position_in_grid.x;
y[i] = 100.0f * a[i] + 10.0f * b[i] + c[i] + w[i];
a[i] += 1.0f;
b[i] += 2.0f;
c[i] += 3.0f;
)"});
  return kernel;
}

std::vector<Array> call_three(const Array& w, std::vector<Array> in_place) {
  return three_in_place()({w}, {.grid = {kLength, 1, 1},
                                .threadgroup = {32, 1, 1},
                                .output_shapes = {{kLength}},
                                .output_dtypes = {float32},
                                .in_place = std::move(in_place)});
}

using Order = std::array<size_t, 3>;
// For arguments that were given x + `order`, as of `x`: the output, then what became of each.
std::array<float, 4> three_of(float x, const Order& order, float w) {
  const std::array<float, 3> in{x + static_cast<float>(order[0]), x + static_cast<float>(order[1]),
                                x + static_cast<float>(order[2])};
  return {100 * in[0] + 10 * in[1] + in[2] + w, in[0] + 1, in[1] + 2, in[2] + 3};
}

ARRAY_SCENARIO(jax_39625_in_place_arguments_in_every_order) {
  ArrayRig rig(world);
  const Array w = filled(0.5, rig.stream());
  Order given{0, 1, 2};
  uint64_t calls = 0;
  do {
    Order read{0, 1, 2};
    do {
      std::vector<Array> arguments;
      for (const size_t i : given)
        arguments.push_back(filled(static_cast<double>(i + 4), rig.stream()));
      // Some were computed before, some are computed by the same evaluation.
      if (calls % 2 == 1) async_eval(arguments);
      std::vector<Array> made = call_three(w, std::move(arguments));
      ++calls;
      const std::array<float, 4> expected = three_of(4, given, 0.5F);
      for (const size_t i : read) {
        ASSERT_THAT(made[i + 1].to_vector<float>(), Each(expected[i + 1])) << calls << ": " << i;
        made[i + 1] = {};
      }
      ASSERT_THAT(made[0].to_vector<float>(), Each(expected[0])) << calls;
    } while (std::next_permutation(read.begin(), read.end()));
  } while (std::next_permutation(given.begin(), given.end()));
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().donated, 3 * calls);
  EXPECT_EQ(rig.stats().hidden_copies, 0U);
}

// One of the arguments is somebody else's too, by itself, as a view, or as the node's own input:
// that one is copied and stays as it was, and the others keep their memory.
ARRAY_SCENARIO(jax_39625_only_the_argument_that_somebody_sees_is_copied) {
  for (size_t seen = 0; seen < 3; ++seen) {
    for (const bool as_input : {false, true}) {
      ArrayRig rig(world);
      Array w = filled(0.5, rig.stream());
      std::vector<Array> arguments;
      for (const double value : {4.0, 5.0, 6.0}) arguments.push_back(filled(value, rig.stream()));
      const float old = 4.0F + static_cast<float>(seen);
      Array view;
      if (as_input) {
        w = arguments[seen];
      } else {
        view = slice(arguments[seen], {{.start = 3, .step = 2}});
      }
      const std::vector<Array> made = call_three(std::exchange(w, {}), std::move(arguments));
      const std::array<float, 4> expected = three_of(4, {0, 1, 2}, as_input ? old : 0.5F);
      async_eval(made);
      if (!world.has_faults()) {
        EXPECT_EQ(rig.stats().donated, 2U);
        EXPECT_GE(rig.stats().hidden_copies, 1U);
      }
      for (const size_t i : {2U, 0U, 3U, 1U}) {
        ASSERT_THAT(made[i].to_vector<float>(), Each(expected[i])) << seen << ": " << i;
      }
      if (view.has_value()) {
        EXPECT_THAT(view.to_vector<float>(), Each(old));
      }
    }
  }
}

// Results that nobody keeps: their memory goes while the others live on, whichever they are.
ARRAY_SCENARIO(jax_39625_any_of_the_results_may_be_dropped) {
  for (size_t kept = 0; kept < 4; ++kept) {
    ArrayRig rig(world);
    std::vector<Array> arguments;
    for (const double value : {4.0, 5.0, 6.0}) arguments.push_back(filled(value, rig.stream()));
    std::vector<Array> made = call_three(filled(0.5, rig.stream()), std::move(arguments));
    const Array result = made[kept];
    made.clear();
    async_eval(result);
    if (!world.has_faults()) {
      EXPECT_EQ(rig.stats().donated, 3U);
      EXPECT_EQ(rig.stats().active_memory(), kSize);
    }
    const Array next = filled(-1, rig.stream());
    async_eval(next);
    EXPECT_THAT(result.to_vector<float>(), Each(three_of(4, {0, 1, 2}, 0.5F)[kept])) << kept;
    EXPECT_THAT(next.to_vector<float>(), Each(-1.0F));
  }
}

}  // namespace
}  // namespace holdfast
