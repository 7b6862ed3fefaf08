#include <array>
#include <stdexcept>

#include "holdfast/array/scenarios/array_kernels_test.h"
#include "holdfast/array/scenarios/interlude_test.h"

// Arrays that move between two devices.
namespace holdfast {
namespace {

using ::testing::Each;
using testing::Gate;
using ::testing::HasSubstr;
using testing::patient;
using testing::World;

// Two devices: nodes go to `here` unless they say otherwise. `reached`: whether the host reaches
// the memory of `there`, which is then read in place, and not through a copy.
struct TwoDevices {
  explicit TwoDevices(World& world, bool reached = true)
      : there(world,
              {.device = {.queues = 2, .helpers = 0, .device_memory_host_visible = reached}}),
        here(world) {}
  // Without a reaper, lists that were not looked at would keep both devices for each other.
  ~TwoDevices() { here.device.context()->close(); }
  TwoDevices(const TwoDevices&) = delete;
  TwoDevices& operator=(const TwoDevices&) = delete;

  uint64_t wait_count() const {
    return there.stats().runtime.wait_count() + here.stats().runtime.wait_count();
  }

  ArrayRig there;
  ArrayRig here;
};

// The source waits for the host: an evaluation of what comes of it on the other device returns all
// the same, the source may go, and the value is there once the gate opens.
void move_gated(World& world, bool reached) {
  TwoDevices two(world, reached);
  const Stream s = two.there.stream();
  Gate gate(*two.there.device.context());
  hold(s, gate);
  Array x = run(plus_one(), filled(2, s), "x", s);
  const Array y = run(plus_one(), x.to(two.here.device), "y");
  EXPECT_EQ(two.there.stats().nodes_recorded + two.here.stats().nodes_recorded, 0U)
      << "building evaluates nothing";
  async_eval(y);
  x = Array();
  if (!world.has_faults()) {
    EXPECT_EQ(two.wait_count(), 0U) << "the devices wait, not the host";
  }
  // Time, and memory, for what does not wait.
  const Stream other = two.there.device.new_stream("other");
  filled(-1, other).eval(patient());
  gate.open();
  EXPECT_THAT(y.to_vector<float>(), Each(4.0F));
}

ARRAY_SCENARIO(a_transfer_waits_for_its_source_on_the_device) { move_gated(world, true); }
ARRAY_SCENARIO(a_staged_transfer_waits_for_its_source_on_the_device) { move_gated(world, false); }

// The source's memory goes to a node that writes to it, right after the transfer was scheduled.
void move_and_donate(World& world, bool reached) {
  TwoDevices two(world, reached);
  const Stream s = two.there.stream();
  Array x = run(plus_one(), filled(2, s), "x", s);
  const Array y = x.to(two.here.device);
  async_eval(y);
  const Array z = double_in_place(std::move(x), s);
  async_eval(z);
  EXPECT_THAT(y.to_vector<float>(), Each(3.0F));
  EXPECT_THAT(z.to_vector<float>(), Each(6.0F));
  if (world.has_faults()) return;
  const Stats stats = two.there.stats();
  EXPECT_EQ(stats.donated + stats.hidden_copies, 1U);
  if (!reached) {
    EXPECT_EQ(stats.donated, 1U) << "the staging has the bytes";
  }
}

ARRAY_SCENARIO(a_transfer_whose_source_is_donated_moves_what_was_there) {
  move_and_donate(world, true);
}
ARRAY_SCENARIO(a_staged_transfer_whose_source_is_donated_moves_what_was_there) {
  move_and_donate(world, false);
}

// Dropped sources, and results that are dropped too: the ranges of both serve the next round, and
// each round moves its own values.
void move_and_recycle(World& world, bool reached) {
  TwoDevices two(world, reached);
  const Stream s = two.there.stream();
  std::vector<Array> kept;
  for (int i = 0; i < 4; ++i) {
    const Array dropped = filled(-i, s).to(two.here.device);
    kept.push_back(run(plus_one(), filled(i, s), "", s).to(two.here.device));
    async_eval(kept.back(), dropped);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(kept[static_cast<size_t>(i)].to_vector<float>(), Each(static_cast<float>(i + 1)));
  }
}

ARRAY_SCENARIO(transfers_of_recycled_memory_move_their_own_values) {
  move_and_recycle(world, true);
}
ARRAY_SCENARIO(staged_transfers_of_recycled_memory_move_their_own_values) {
  move_and_recycle(world, false);
}

// There and back, with kernels on both sides, in one evaluation.
ARRAY_SCENARIO(a_chain_of_transfers_goes_through_both_devices) {
  TwoDevices two(world);
  Array x = run(plus_one(), Array(ramp(kLength)), "start");
  for (int i = 0; i < 2; ++i) {
    x = run(plus_one(), x.to(two.there.device), "there", two.there.stream());
    x = run(plus_one(), x.to(two.here.device), "here");
  }
  EXPECT_EQ(x.to_vector<float>(), mapped(ramp(kLength), [](float v) { return v + 5; }));
}

// Two tasks that move parts of one graph at once: each node is recorded once, and both get it.
ARRAY_SCENARIO(tasks_that_transfer_overlapping_graphs_share_the_nodes) {
  TwoDevices two(world);
  const Stream s = two.there.stream();
  const Array x = run(plus_one(), filled(1, s), "x", s);
  const Array moved = x.to(two.here.device);
  const Array back = run(plus_one(), moved).to(two.there.device);
  auto other = world.task("other", [&] {
    const UseStream scope(two.here.stream());
    EXPECT_THAT(run(plus_one(), moved, "other").to_vector<float>(), Each(3.0F));
    EXPECT_THAT(back.to_vector<float>(), Each(3.0F));
  });
  EXPECT_THAT(back.to_vector<float>(), Each(3.0F));
  EXPECT_THAT(moved.to_vector<float>(), Each(2.0F));
  other.join();
}

// Writes its output and fails on the device.
class FailingSource final : public Operation {
 public:
  std::string_view name() const noexcept override { return "failing_source"; }
  void record(Encoder& encoder) const override {
    const std::array writes{encoder.output(0)};
    encoder.native([](const hal::NativeCall&) { throw std::runtime_error("it broke"); }, {},
                   writes);
  }
};

// The source fails when its device executes it: whoever reads the moved elements, or what was made
// of them, hears why. What shares its list is moved all the same, and both streams work on.
void move_failed(World& world, bool reached) {
  TwoDevices two(world, reached);
  const Stream s = two.there.stream();
  const Array bad = apply(make_ref<const FailingSource>(), {}, OutputType{{kLength}, float32}, s);
  const Array good = filled(7, s);
  const Array moved_bad = bad.to(two.here.device);
  const Array moved_good = good.to(two.here.device);
  const Array beside = filled(8, two.here.stream());
  const Array dependent = run(plus_one(), moved_bad, "dependent");
  try {
    async_eval(bad, good, moved_bad, moved_good, beside, dependent);
  } catch (const ExecutionError&) {  // NOLINT(bugprone-empty-catch): it may be known already
  }
  for (const Array& each : {moved_bad, dependent}) {
    try {
      (void)each.to_vector<float>();
      ADD_FAILURE() << "it raised nothing";
    } catch (const ExecutionError& error) {
      if (!world.has_faults()) {
        EXPECT_THAT(error.what(), HasSubstr("it broke"));
      }
    }
  }
  EXPECT_THAT(moved_good.to_vector<float>(), Each(7.0F));
  EXPECT_THAT(beside.to_vector<float>(), Each(8.0F));
  EXPECT_THAT(run(plus_one(), moved_good, "goes on").to_vector<float>(), Each(8.0F));
}

ARRAY_SCENARIO(a_transfer_of_what_failed_hands_the_cause_on) {
  if (world.is_left_to_the_cpu(testing::kKernelsFailAlone)) return;
  move_failed(world, true);
}
ARRAY_SCENARIO(a_staged_transfer_of_what_failed_hands_the_cause_on) {
  if (world.is_left_to_the_cpu(testing::kKernelsFailAlone)) return;
  move_failed(world, false);
}

}  // namespace
}  // namespace holdfast
