// quadrants#493, quadrants#536, workload 4 in its lifetimes: launches whose scratch memory grows,
// submitted one by one and never waited for.

#include <algorithm>
#include <array>

#include "holdfast/array/scenarios/interlude_test.h"

namespace holdfast {
namespace {

using runtime::WaitReason;
using testing::Gate;
using testing::World;

// Every element of the heap depends on the launch and on its place. The result: their sum.
Array run_in(Array& heap, int64_t launch) {
  static const Kernel kernel(
      {.name = "launch", .outputs = {"y"}, .in_place = {"heap"}, .source = R"(
float sum = 0.0f;
for (uint i = 0; i < uint(count); ++i) {
  heap[i] = launch + float(i);
  sum += heap[i];
}
y[0] = sum;
)"});
  const auto count = static_cast<int32_t>(heap.size());
  std::vector<Array> only;
  only.push_back(std::move(heap));
  std::vector<Array> made =
      kernel({}, {.grid = {1, 1, 1},
                  .threadgroup = {1, 1, 1},
                  .output_shapes = {{1}},
                  .output_dtypes = {float32},
                  .params = {{"count", count}, {"launch", static_cast<float>(launch)}},
                  .in_place = std::move(only),
                  .label = "launch " + std::to_string(launch)});
  heap = std::move(made[1]);
  return std::move(made[0]);
}

const Kernel& total() {
  static const Kernel kernel({.name = "total", .inputs = {"x"}, .outputs = {"y"}, .source = R"(
float sum = 0.0f;
for (uint i = 0; i < uint(count); ++i) sum += x[i];
y[0] = sum;
)"});
  return kernel;
}

Array total_of(const Array& heap) {
  return total()({heap}, {.grid = {1, 1, 1},
                          .threadgroup = {1, 1, 1},
                          .output_shapes = {{1}},
                          .output_dtypes = {float32},
                          .params = {{"count", static_cast<int32_t>(heap.size())}}})[0];
}

// Integers below 2^24, which float32 adds exactly.
float expected_total(int64_t length, int64_t launch) {
  const int64_t pairs = length * (length - 1) / 2;
  return static_cast<float>(length * launch + pairs);
}

// A heap that is displaced by a larger one when it is too small.
class Heap {
 public:
  // Another launch that needs this much; its result.
  Array launch(int64_t number, int64_t required) {
    if (required > length()) {
      displaced_ += heap_.has_value() ? heap_.nbytes() : Bytes{};
      heap_ = zeros({std::max(required, 2 * length())}).set_name("heap");
    }
    return run_in(heap_, number);
  }
  const Array& array() const { return heap_; }
  int64_t length() const { return heap_.has_value() ? heap_.size() : 0; }
  Bytes displaced() const { return displaced_; }

 private:
  Array heap_;
  Bytes displaced_;
};

// The device has not begun when the last heap is displaced: submitting, retiring and trimming must
// leave all of them alone.
ARRAY_SCENARIO(quadrants_493_displaced_heaps_are_not_dropped_at_submit) {
  ArrayRig rig(world);
  const Stream other = rig.device.new_stream("other");
  {
    Heap warm_up;
    eval(warm_up.launch(0, 64));
  }
  rig.device.synchronize();
  const Stats before = rig.stats();
  Gate gate(*rig.device.context());
  hold(rig.stream(), gate);
  Heap heap;
  std::vector<Array> totals;
  std::vector<float> expected;
  constexpr int64_t kLaunches = 8;
  for (int64_t i = 1; i <= kLaunches; ++i) {
    totals.push_back(heap.launch(i, 64 * i));
    async_eval(totals.back());
    rig.device.context()->retire();
    rig.device.clear_cache();
    expected.push_back(expected_total(heap.length(), i));
  }
  if (!world.has_faults()) {
    const Stats now = rig.stats();
    EXPECT_EQ(heap.length(), 512);
    EXPECT_EQ(heap.displaced(), Bytes{(64 + 128 + 256) * sizeof(float)});
    // Small results may lie in what was displaced: later work of the same stream.
    const Bytes reused{kLaunches * 256};
    EXPECT_GE(now.runtime.memory.deferred + reused, heap.displaced());
    EXPECT_GT(now.runtime.memory.deferred_objects, 0U);
    EXPECT_EQ(now.runtime.submissions_in_flight, uint64_t{kLaunches});
    EXPECT_EQ(now.donated - before.donated, uint64_t{kLaunches}) << "written where it lies";
    EXPECT_EQ(now.hidden_copies, before.hidden_copies);
    EXPECT_EQ(now.runtime.wait_count(), before.runtime.wait_count());
  }
  std::vector<Array> greedy;
  for (const int64_t length : {64, 128, 256}) {
    greedy.push_back(full({length}, 99, float32, other));
    async_eval(greedy.back());
  }
  gate.open();
  for (size_t i = 0; i < totals.size(); ++i) EXPECT_EQ(totals[i].item<float>(), expected[i]) << i;
  for (const Array& g : greedy) {
    EXPECT_EQ(g.to_vector<float>(), std::vector<float>(static_cast<size_t>(g.size()), 99));
  }
  if (world.has_faults()) return;
  rig.device.synchronize();
  EXPECT_EQ(rig.stats().runtime.memory.deferred, Bytes{});
}

// Several launches and a growth in one list. What each left in the heap is read by another node
// before the next one writes there.
ARRAY_SCENARIO(quadrants_493_heap_rewritten_and_displaced_inside_a_list) {
  ArrayRig rig(world, {.submit = kOneList});
  const uint64_t submitted = rig.stats().runtime.submissions;
  std::vector<Array> totals;
  std::vector<float> expected;
  constexpr int64_t kLaunches = 6;
  {
    Heap heap;
    for (int64_t i = 1; i <= kLaunches; ++i) {
      totals.push_back(heap.launch(i, 32 * i));
      totals.push_back(total_of(heap.array()));
      expected.insert(expected.end(), 2, expected_total(heap.length(), i));
    }
  }
  async_eval(totals);
  if (!world.has_faults()) {
    const Stats now = rig.stats();
    EXPECT_EQ(now.runtime.submissions - submitted, 1U);
    EXPECT_EQ(now.donated, uint64_t{kLaunches}) << "each reader is recorded before the next writer";
    EXPECT_EQ(now.hidden_copies, 0U);
  }
  for (size_t i = 0; i < totals.size(); ++i) EXPECT_EQ(totals[i].item<float>(), expected[i]) << i;
}

// Launches chained to a next stage on another stream, every tenth read back, nothing synchronised.
ARRAY_SCENARIO(quadrants_536_launches_that_nobody_synchronises) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world);
  const bool simulated = world.mode() == World::Mode::adversary;
  const int64_t launches = simulated ? 6 : 200;
  const int64_t reads_every = simulated ? 3 : 10;
  const Stream next_stage = rig.device.new_stream("next stage");
  const Kernel plus_one = elementwise_kernel("plus_one", "a[i] + T(1)");
  Heap heap;
  uint64_t reads = 0;
  for (int64_t i = 1; i <= launches; ++i) {
    const Array sum = heap.launch(i, 16 * i);
    const Array result = run(plus_one, sum, {}, next_stage);
    async_eval(result);
    if (i % reads_every != 0) continue;
    EXPECT_EQ(result.item<float>(), expected_total(heap.length(), i) + 1) << "launch " << i;
    ++reads;
  }
  if (world.has_faults()) return;
  const Stats stats = rig.stats();
  EXPECT_EQ(stats.donated, static_cast<uint64_t>(launches));
  EXPECT_EQ(stats.hidden_copies, 0U);
  const runtime::WaitStats& for_reads = stats.runtime.waits_for(WaitReason::readback);
  EXPECT_LE(for_reads.count, reads);
  EXPECT_EQ(stats.runtime.wait_count(), for_reads.count) << to_string(stats);
}

// Scratch memory of an operation: only its node knows it, and each launch needs more than the last.
class ScratchedTotal final : public Operation {
 public:
  ScratchedTotal(int64_t launch, int64_t length) : launch_(launch), length_(length) {}
  std::string_view name() const noexcept override { return "scratched_total"; }
  void record(Encoder& encoder) const override {
    static const Kernel scribble({.name = "scribble",
                                  .outputs = {"y"},
                                  .source = "uint i = thread_position_in_grid.x;\n"
                                            "y[i] = launch + float(i);"});
    const Operand scratch = encoder.scratch({length_}, float32);
    const std::array launch{Param{"launch", static_cast<float>(launch_)}};
    encoder.launch(scribble, {.outputs = {&scratch, 1},
                              .grid = {static_cast<uint32_t>(length_), 1, 1},
                              .threadgroup = {64, 1, 1},
                              .params = launch});
    const std::array count{Param{"count", static_cast<int32_t>(length_)}};
    encoder.launch(total(), {.inputs = {&scratch, 1},
                             .outputs = {&encoder.output(0), 1},
                             .grid = {1, 1, 1},
                             .threadgroup = {1, 1, 1},
                             .params = count});
  }

 private:
  int64_t launch_;
  int64_t length_;
};

Array scratched_total(int64_t launch, int64_t length) {
  return apply(make_ref<const ScratchedTotal>(launch, length), {}, OutputType{{1}, float32});
}

ARRAY_SCENARIO(quadrants_493_scratch_of_operations_outlives_their_nodes) {
  ArrayRig rig(world);
  const Stream other = rig.device.new_stream("other");
  eval(scratched_total(0, 8));
  rig.device.synchronize();
  Gate gate(*rig.device.context());
  hold(rig.stream(), gate);
  std::vector<Array> totals;
  for (int64_t i = 1; i <= 5; ++i) {
    totals.push_back(scratched_total(i, 64 * i));
    async_eval(totals.back());
    rig.device.clear_cache();
  }
  if (!world.has_faults()) {
    const runtime::MemoryStats memory = rig.stats().runtime.memory;
    EXPECT_GE(memory.deferred, Bytes{64 * 5 * sizeof(float)}) << "at least the last one";
    EXPECT_EQ(rig.stats().runtime.submissions_in_flight, 5U);
  }
  Array greedy;
  {
    const auto task = world.task("greedy", [&] {
      greedy = full({320}, 99, float32, other);
      async_eval(greedy);
    });
  }
  gate.open();
  for (int64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(totals[static_cast<size_t>(i - 1)].item<float>(), expected_total(64 * i, i));
  }
  EXPECT_EQ(greedy.to_vector<float>(), std::vector<float>(320, 99));
}

}  // namespace
}  // namespace holdfast
