#include <atomic>
#include <cmath>

#include "holdfast/array/scenarios/array_kernels_test.h"
#include "holdfast/testing/effort.h"

// What waits for the device, what the pool keeps, and who waits for whom.
namespace holdfast {
namespace {

using runtime::MemoryStats;
using runtime::WaitReason;
using ::testing::Each;
using testing::Event;
using testing::Gate;
using testing::Pages;
using testing::patient;
using testing::until;
using testing::World;

// quadrants#538, workload 4: launches with metadata of their own over a scratch array that grows.
class Launches {
 public:
  explicit Launches(const Stream& stream) : stream_(stream), heap_(zeros({64}, float32, stream)) {}

  // What a launch can displace: its metadata, and the old heap.
  static constexpr Bytes kDisplaces = kSize + 512_B;

  // The heap's first elements become the number of the launch, and the result is what they were
  // before, and one.
  void launch() {
    launched_ += 1;
    const Array metadata(Floats(kLength, launched_), {kLength}, "metadata", stream_);
    result_ = run(plus_one(), slice(heap_, {{.stop = kLength}}), "result", stream_);
    const int64_t required = std::min<int64_t>(64 * (1 + static_cast<int64_t>(launched_) / 3), 256);
    if (required > heap_.size()) {
      heap_ = slice_update(zeros({required}, float32, stream_), heap_, {{.stop = heap_.size()}},
                           stream_);
    }
    heap_ = slice_update(std::move(heap_), metadata, {{.stop = kLength}}, stream_);
    async_eval(heap_, result_);
  }
  void check() const {
    EXPECT_THAT(result_.to_vector<float>(), Each(launched_));
    EXPECT_EQ(heap_.to_vector<float>().front(), launched_);
  }
  const Array& heap() const { return heap_; }

 private:
  Stream stream_;
  Array heap_;
  Array result_;
  float launched_ = 0;
};

// While the device keeps up, nobody waits for it, and what it is done with goes at once.
ARRAY_SCENARIO(quadrants_538_no_wait_while_the_device_keeps_up) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0},
                       .runtime = {.deferred_limit = 1_KiB, .max_in_flight = 2, .reaper = false}});
  Launches launches(rig.stream());
  for (int i = 0; i < 8; ++i) {
    launches.launch();
    if (!world.has_faults()) {
      EXPECT_LE(rig.stats().runtime.submissions_in_flight, 1U) << "a submit retires what is over";
    }
    ASSERT_TRUE(testing::until_done(rig.stream().runtime_stream()->flush()));
  }
  launches.check();
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().runtime.wait_count(), 0U);
  EXPECT_LE(rig.stats().runtime.memory.deferred_peak, Launches::kDisplaces * 2);
}

// A device that falls behind: what waits for it stays within the limits, and the host waits for the
// oldest submission and no more.
void fall_behind(World& world, const runtime::Options& options, uint64_t least) {
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0}, .runtime = options});
  const bool held = world.adversary() != nullptr;
  if (held) world.adversary()->hold_back_all();
  Launches launches(rig.stream());
  for (uint64_t i = 1; i <= 12; ++i) {
    launches.launch();
    if (world.has_faults()) continue;
    const runtime::RuntimeStats now = rig.stats().runtime;
    EXPECT_LE(now.submissions_in_flight, options.max_in_flight + 1U);
    EXPECT_LE(now.memory.deferred_peak, options.deferred_limit + Launches::kDisplaces);
    EXPECT_EQ(now.wait_count(), now.waits_for(WaitReason::budget).count);
    if (!held) continue;
    EXPECT_GE(now.submissions_in_flight, std::min(i, least)) << "it was drained";
    EXPECT_EQ(now.wait_count(), now.retired) << "each wait is for the oldest list alone";
  }
  launches.check();
  if (world.has_faults()) return;
  if (held) {
    EXPECT_GT(waits(rig, WaitReason::budget), 0U) << "the limit was never met";
  }
  EXPECT_EQ(rig.stats().runtime.submissions_in_flight, 0U);
  EXPECT_EQ(rig.stats().runtime.memory.deferred, 0_B);
}

ARRAY_SCENARIO(quadrants_538_submissions_in_flight_are_bounded_without_draining) {
  fall_behind(world, {.max_in_flight = 4, .reaper = false}, 4);
}

ARRAY_SCENARIO(quadrants_538_deferred_bytes_are_bounded_without_draining) {
  fall_behind(world, {.deferred_limit = 4_KiB, .reaper = false}, 3);
}

// mlx#3350: a cache that grows with every token. What the pool has from the device stays bounded by
// what is live: old and new, and the pool's own slack.
void grow(World& world, bool synchronizes) {
  // A simulation scribbles over all that dies.
  const bool simulated = world.mode() == World::Mode::adversary;
  const int64_t unit = simulated ? 256 : 256 << 10;  // 1 KiB, 1 MiB
  const int64_t last = simulated ? 16 : testing::is_shortened() ? 64 : 256;
  const int64_t fraction = simulated ? 2 : 4;
  const Bytes slack = simulated ? 1_MiB : 96_MiB;
  ArrayRig rig(world);
  Array cache = full({unit}, 1.0);
  for (int64_t units = 2; units <= last; units += units / fraction + 1) {
    cache = concatenate({cache, full({units * unit - cache.size()}, static_cast<double>(units))});
    async_eval(cache);
    const MemoryStats now = rig.stats().runtime.memory;
    EXPECT_LE(now.reserved, (now.live + now.deferred_peak) * 3 / 2 + slack) << units;
    if (!synchronizes) continue;
    rig.stream().synchronize(patient());
    const MemoryStats after = rig.stats().runtime.memory;
    EXPECT_EQ(after.live_objects, 1U) << "neither the token nor the old cache";
    EXPECT_LE(after.live, cache.nbytes() * 9 / 8);
    EXPECT_EQ(after.deferred, 0_B);
    EXPECT_LE(after.reserved, after.live * 9 / 4 + slack) << "old and new, at " << units;
  }
  EXPECT_EQ(index(cache, 0).item<float>(), 1.0F);
  EXPECT_GT(index(cache, -1).item<float>(), 1.0F);
  rig.stream().synchronize(patient());
  rig.device.clear_cache();
  EXPECT_LE(rig.stats().runtime.memory.reserved, cache.nbytes() * 9 / 8 + 1_MiB);
}

ARRAY_SCENARIO(mlx_3350_growing_sizes_do_not_strand_memory) { grow(world, true); }

ARRAY_SCENARIO(mlx_3350_growing_sizes_in_flight_do_not_strand_memory) { grow(world, false); }

// With a limit of twice the last size there is room for the old one and the new one, all the way.
ARRAY_SCENARIO(mlx_3350_growing_sizes_fit_in_twice_the_live_bytes) {
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0},
                       .runtime = {.memory_limit = 6_KiB, .reaper = false}});
  Array cache = zeros({64});
  for (int64_t length = 128; length <= 768; length += 128) {
    const int64_t old = cache.size();
    cache = slice_update(zeros({length}), cache, {{.stop = old}});
    cache = slice_update(std::move(cache), full({}, 1.0), {{.start = old}});
    async_eval(cache);
  }
  const Floats values = cache.to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i < 64 ? 0.0F : 1.0F) << i;
  if (world.has_faults()) return;
  EXPECT_LE(rig.stats().runtime.memory.reserved_peak, cache.nbytes() * 2);
  EXPECT_EQ(rig.stats().hidden_copies, 0U);
}

// wgpu#3806: nobody polls, waits or submits again; what the work held is let go all the same.
ARRAY_SCENARIO(wgpu_3806_memory_is_released_although_nobody_polls) {
  Event deleted;
  const Pages mine(256);
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0}, .runtime = {}});
  {
    const Array x = from_external(mine.data(), uint8, {static_cast<int64_t>(mine.size().value)},
                                  [&] { deleted.set(); });
    async_eval(run(plus_one(), x));
  }
  EXPECT_TRUE(until([&] { return deleted.is_set(); }));
  EXPECT_TRUE(until([&] { return rig.stats().runtime.memory.deferred == 0_B; }));
  EXPECT_EQ(rig.stats().active_memory(), 0_B);
  EXPECT_EQ(rig.stats().runtime.wait_count(), 0U);
}

// Nor does a program need that which evaluates on and never asks for a result: each submit lets go
// of what is over.
ARRAY_SCENARIO(wgpu_3806_evaluating_on_releases_what_is_over) {
  const bool simulated = world.mode() == World::Mode::adversary;
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0}});
  std::atomic<int> deleted{0};
  const int rounds = simulated ? 6 : 200;
  const Pages mine(256);
  for (int i = 0; i < rounds; ++i) {
    const Array x = from_external(mine.data(), uint8, {static_cast<int64_t>(mine.size().value)},
                                  [&] { ++deleted; });
    async_eval(run(plus_one(), x));
    ASSERT_TRUE(testing::until_done(rig.stream().runtime_stream()->flush()));
    // The one before is over, and this one's submit has seen it.
    if (!world.has_faults()) {
      EXPECT_GE(deleted.load(), i);
      EXPECT_LE(rig.stats().runtime.memory.device_buffers, 3U);
    }
  }
  EXPECT_EQ(rig.stats().runtime.wait_count(), 0U);
}

// burn#2032: a task is blocked in reading what only the end of a gate brings about. Others build,
// evaluate and read on other streams, and evaluate on that very one.
enum class Reading { eval, to_vector, map };
void blocked_reader(World& world, Reading how, bool host_visible = true) {
  ArrayRig rig(world,
               {.device = {.queues = 3, .helpers = 0, .device_memory_host_visible = host_visible}});
  const Stream gated = rig.stream();
  const Stream other = rig.device.new_stream("other");
  const Array x = filled(5, gated);
  const Array z = filled(20, gated);
  Event reading;
  sync::Thread reader;
  Gate gate(*rig.device.context());
  gated.runtime_stream()->wait_for(gate.point());
  async_eval(z);
  reader = world.task("reader", [&] {
    struct AtEnd {
      ~AtEnd() { event.set(); }
      Event& event;
    } const at_end{reading};
    WaitLimit limit = patient();
    limit.interrupted = [&] { return reading.set(), false; };
    switch (how) {
      case Reading::eval: x.eval(limit); break;
      case Reading::map: {
        const ArrayMap map = x.map(limit);
        EXPECT_THAT(map.values<float>(), Each(5.0F));
        break;
      }
      case Reading::to_vector: {
        async_eval(x);
        reading.set();  // at the latest the next thing that it does is to block
        break;
      }
    }
    EXPECT_THAT(x.to_vector<float>(), Each(5.0F));
  });
  // A simulation comes to that by itself, and to every other order.
  if (world.mode() != World::Mode::adversary) {
    ASSERT_TRUE(reading.wait());
  }
  for (int i = 0; i < 3; ++i) {
    const Array y = run(plus_one(), filled(i, other), "beside", other);
    EXPECT_THAT(y.to_vector<float>(), Each(static_cast<float>(i + 1)));
    async_eval(double_in_place(run(plus_one(), z, "behind", gated), gated));
  }
  // Also of what the reader reads.
  const Array shares = run(plus_one(), x, "shares", gated);
  async_eval(shares);
  if (!world.has_faults()) {
    for (const auto reason : {WaitReason::budget, WaitReason::host_access}) {
      EXPECT_EQ(waits(rig, reason), 0U) << to_string(reason);
    }
  }
  gate.open();
  EXPECT_THAT(z.to_vector<float>(), Each(20.0F));
  EXPECT_THAT(shares.to_vector<float>(), Each(6.0F));
}

ARRAY_SCENARIO(burn_2032_blocked_eval_holds_nobody_up) { blocked_reader(world, Reading::eval); }

ARRAY_SCENARIO(burn_2032_blocked_readback_holds_nobody_up) {
  blocked_reader(world, Reading::to_vector);
}

ARRAY_SCENARIO(burn_2032_blocked_map_holds_nobody_up) {
  if (world.is_left_to_the_cpu(testing::kMapsMemory)) return;
  blocked_reader(world, Reading::map);
}

ARRAY_SCENARIO(burn_2032_blocked_readback_on_a_discrete_device) {
  blocked_reader(world, Reading::to_vector, false);
}

// mlx#1828: a long chain of one small kernel. Each call costs one command, one barrier at most and
// no memory; the kernel is compiled once; the device gets the work in few submissions.
ARRAY_SCENARIO(mlx_1828_calls_of_a_long_chain_cost_the_same) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  const bool simulated = world.mode() == World::Mode::adversary;
  const int calls = simulated ? 20 : 10'000;
  ArrayRig rig(world,
               {.device = {.queues = 1, .helpers = 0}, .submit = {.time = std::chrono::hours(1)}});
  Array x(Floats(kLength, 3.0F));
  for (int i = 0; i < calls; ++i) x = run(plus_one(), x);
  EXPECT_THAT(x.to_vector<float>(), Each(3.0F + static_cast<float>(calls)));
  if (world.has_faults()) return;
  const Stats stats = rig.stats();
  EXPECT_EQ(rig.compiles(), 1U);
  EXPECT_EQ(stats.nodes_recorded, static_cast<uint64_t>(calls));
  EXPECT_EQ(stats.runtime.commands, static_cast<uint64_t>(calls));
  EXPECT_LE(stats.runtime.barriers, static_cast<uint64_t>(calls));
  EXPECT_LE(stats.runtime.holds, static_cast<uint64_t>(3 * calls + 3));
  EXPECT_EQ(stats.runtime.submissions, static_cast<uint64_t>(calls / 64 + 1));
  EXPECT_EQ(stats.runtime.wait_count(), waits(rig, WaitReason::readback));
  EXPECT_LE(stats.peak_memory(), kSize * 3);
}

// The same in place: the chain lives in one array's memory.
ARRAY_SCENARIO(mlx_1828_chain_in_place_takes_no_memory) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  const int calls = world.mode() == World::Mode::adversary ? 10 : 100;
  ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0}});
  Array x(Floats(kLength, 1.0F));
  for (int i = 0; i < calls; ++i) x = double_in_place(std::move(x));
  EXPECT_THAT(x.to_vector<float>(), Each(std::ldexp(1.0F, calls)));
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().donated, static_cast<uint64_t>(calls));
  EXPECT_EQ(rig.stats().runtime.memory.allocations, 1U);
  EXPECT_EQ(rig.stats().peak_memory(), kSize);
}

}  // namespace
}  // namespace holdfast
