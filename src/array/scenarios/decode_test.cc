// mlx#3461, workload 3 in its lifetimes alone: sequences that decode beside each other, each with a
// cache that grows, from which everything is dropped the moment the next step is scheduled.

#include <algorithm>

#include "holdfast/array/scenarios/interlude_test.h"

namespace holdfast {
namespace {

using testing::Gate;
using testing::World;

constexpr int64_t kHeads = 2;
constexpr int64_t kDepth = 3;
constexpr int64_t kCapacityStep = 4;

float token(int sequence, int64_t step, int64_t cell) {
  return static_cast<float>(sequence * 100 + step * 10 + cell);
}

// A token for each head, of run-time parameters.
Array encode(int sequence, int64_t step) {
  static const Kernel kernel({.name = "encode",
                              .outputs = {"y"},
                              .source = "uint i = thread_position_in_grid.x;\n"
                                        "y[i] = float(sequence * 100 + step * 10 + int(i));"});
  return kernel({}, {.grid = {kHeads * kDepth, 1, 1},
                     .threadgroup = {32, 1, 1},
                     .output_shapes = {{kHeads, 1, kDepth}},
                     .output_dtypes = {float32},
                     .params = {{"sequence", sequence}, {"step", static_cast<int32_t>(step)}}})[0];
}

// The sum over all tokens, of rows that must be contiguous.
Array attend(const Array& cache, int64_t step) {
  static const Kernel kernel({.name = "attend", .inputs = {"x"}, .outputs = {"y"}, .source = R"(
uint i = thread_position_in_grid.x;
uint depth = uint(x_shape[2]);
uint head = i / depth;
float sum = 0.0f;
for (uint t = 0; t < uint(tokens); ++t) sum += x[(head * uint(tokens) + t) * depth + i % depth];
y[i] = sum;
)"});
  return kernel({slice(cache, {{}, {.stop = step + 1}})},
                {.grid = {kHeads * kDepth, 1, 1},
                 .threadgroup = {32, 1, 1},
                 .output_shapes = {{kHeads, kDepth}},
                 .output_dtypes = {float32},
                 .params = {{"tokens", static_cast<int32_t>(step + 1)}},
                 .label = "step " + std::to_string(step)})[0];
}

std::vector<float> expected(int sequence, int64_t step) {
  std::vector<float> sums(kHeads * kDepth);
  for (int64_t cell = 0; cell < kHeads * kDepth; ++cell) {
    for (int64_t t = 0; t <= step; ++t) {
      sums[static_cast<size_t>(cell)] += token(sequence, t, cell);
    }
  }
  return sums;
}

// Dropped by a task of its own, at any time from now on.
[[nodiscard]] sync::Thread drop_elsewhere(World& world, Array array) {
  return world.task("dropper", [a = std::move(array)]() mutable { a = Array(); });
}

struct Cache {
  Array values;
  int64_t capacity = 0;
};

// Room for `tokens` more than there are; returns what was displaced, if anything was.
Array grow(Cache& cache, int64_t tokens) {
  if (tokens < cache.capacity) return {};
  cache.capacity = (tokens / kCapacityStep + 1) * kCapacityStep;
  Array grown = zeros({kHeads, cache.capacity, kDepth});
  if (cache.values.has_value()) {
    grown = slice_update(std::move(grown), slice(cache.values, {{}, {.stop = tokens}}),
                         {{}, {.stop = tokens}});
  }
  return std::exchange(cache.values, std::move(grown));
}

struct Counts {
  uint64_t donated = 0;
  uint64_t hidden_copies = 0;
};

// What a sequence costs: each step writes the cache where it lies, and each growth the new one;
// a slice that is not the whole cache is copied for the kernel.
Counts cost_of(int64_t steps) {
  Counts counts;
  for (int64_t step = 0; step < steps; ++step) {
    const bool grows = step % kCapacityStep == 0;
    counts.donated += grows && step > 0 ? 2 : 1;
    counts.hidden_copies += (step + 1) % kCapacityStep == 0 ? 0 : 1;
  }
  return counts;
}

void decode(World& world, int sequence, int64_t steps) {
  Cache cache;
  std::vector<Array> outs;
  for (int64_t step = 0; step < steps; ++step) {
    Array displaced = grow(cache, step);
    cache.values =
        slice_update(std::move(cache.values), encode(sequence, step), {{}, {step, step + 1}});
    Array out = attend(cache.values, step);
    // While the step is being recorded, and while it and those before it are in flight.
    sync::Thread dropper;
    if (displaced.has_value()) dropper = drop_elsewhere(world, std::move(displaced));
    async_eval(out);
    // Every other result is never read.
    if (step % 2 == 0) {
      outs.push_back(std::move(out));
    } else {
      dropper = drop_elsewhere(world, std::move(out));
    }
  }
  cache = {};
  for (size_t i = 0; i < outs.size(); ++i) {
    const auto step = static_cast<int64_t>(2 * i);
    ASSERT_EQ(outs[i].to_vector<float>(), expected(sequence, step))
        << "step " << step << " of sequence " << sequence;
  }
}

enum class Streams { own, shared };

void decode_beside_each_other(World& world, Streams streams) {
  // Threads find by number what a simulation finds by choice.
  const bool simulated = world.mode() == World::Mode::adversary;
  const int sequences = simulated ? 2 : 16;
  const int64_t steps = simulated ? 5 : 26;
  ArrayRig rig(world, {.runtime = {.reaper = !simulated}});
  {
    std::vector<sync::Thread> tasks;
    for (int s = 0; s < sequences; ++s) {
      tasks.push_back(world.task("sequence " + std::to_string(s), [&, s] {
        const UseStream scope(streams == Streams::own ? rig.device.new_stream("own")
                                                      : rig.stream());
        decode(world, s, steps);
      }));
    }
  }
  if (world.has_faults()) return;
  rig.device.synchronize();
  const Stats stats = rig.stats();
  const Counts one = cost_of(steps);
  const auto all = static_cast<uint64_t>(sequences);
  EXPECT_EQ(stats.donated, all * one.donated);
  EXPECT_EQ(stats.hidden_copies, all * one.hidden_copies);
  EXPECT_EQ(stats.kernels.variants, 3U) << "encode, attend, and the copy between layouts";
  EXPECT_EQ(stats.runtime.waits_for(runtime::WaitReason::budget).count, 0U);
  EXPECT_EQ(stats.runtime.waits_for(runtime::WaitReason::out_of_memory).count, 0U);
  EXPECT_EQ(stats.runtime.memory.live, Bytes{}) << "everything was dropped";
  EXPECT_EQ(stats.runtime.memory.deferred, Bytes{});
}

ARRAY_SCENARIO(mlx_3461_sequences_that_drop_their_caches_in_flight) {
  decode_beside_each_other(world, Streams::own);
}

ARRAY_SCENARIO(mlx_3461_sequences_that_share_a_stream) {
  decode_beside_each_other(world, Streams::shared);
}

// mlx PR 3462: nothing of a sequence is kept, from before the device starts on its first step.
// Somebody who asks for memory of the same sizes gets none of it.
ARRAY_SCENARIO(mlx_3462_everything_dropped_before_the_device_starts) {
  ArrayRig rig(world);
  constexpr int64_t kSteps = 6;
  const Stream other = rig.device.new_stream("other");
  // What is compiled and copied in the first round is not what is shown.
  eval(attend(slice_update(zeros({kHeads, 4, kDepth}), encode(0, 0), {{}, {0, 1}}), 0));
  rig.device.synchronize();
  const Stats before = rig.stats();
  Gate gate(*rig.device.context());
  hold(rig.stream(), gate);
  Array last;
  std::vector<sync::Thread> droppers;
  {
    Cache cache;
    for (int64_t step = 0; step < kSteps; ++step) {
      Array displaced = grow(cache, step);
      cache.values = slice_update(std::move(cache.values), encode(7, step), {{}, {step, step + 1}});
      Array out = attend(cache.values, step);
      async_eval(out);
      if (displaced.has_value()) {
        droppers.push_back(drop_elsewhere(world, std::move(displaced)));
      }
      droppers.push_back(drop_elsewhere(world, std::exchange(last, std::move(out))));
    }
    droppers.push_back(drop_elsewhere(world, std::move(cache.values)));
  }
  droppers.clear();
  rig.device.clear_cache();
  if (!world.has_faults()) {
    const Stats now = rig.stats();
    // At least the last cache, in which the last step reads.
    EXPECT_GE(now.runtime.memory.deferred, Bytes{kHeads * 8 * kDepth * sizeof(float)});
    EXPECT_EQ(now.runtime.wait_count(), before.runtime.wait_count()) << "nobody waited for it";
    EXPECT_EQ(now.runtime.submissions_in_flight, uint64_t{kSteps});
  }
  std::vector<Array> others;
  for (int64_t i = 0; i < 8; ++i) {
    const double value = static_cast<double>(1000 + i);
    others.push_back(full({kHeads, 4 * (i % 2 + 1), kDepth}, value, float32, other));
    async_eval(others.back());
  }
  gate.open();
  EXPECT_EQ(last.to_vector<float>(), expected(7, kSteps - 1));
  for (size_t i = 0; i < others.size(); ++i) {
    const std::vector<float> values = others[i].to_vector<float>();
    const auto value = static_cast<float>(1000 + i);
    EXPECT_EQ(std::count(values.begin(), values.end(), value), std::ssize(values)) << i;
  }
}

}  // namespace
}  // namespace holdfast
