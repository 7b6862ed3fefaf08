#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// What the pool keeps, takes and gives back.
namespace holdfast::testing {
namespace {

using hal::Access;
using runtime::MemoryStats;

// Everything that a limit of 4 KiB leaves, filled, and given back.
void take_all_there_is(World& world, Rig& rig, runtime::Stream& stream) {
  rig.context->trim();
  std::vector<Ref<hal::Allocation>> all;
  try {
    for (int i = 0; i < 5; ++i) {
      all.push_back(stream.allocate(1_KiB, "greedy"));
      put(stream, all.back(), 99);
    }
    if (!world.has_faults()) ADD_FAILURE() << "5 KiB within a limit of 4 KiB";
  } catch (const OutOfMemoryError&) {
  }
  for (const auto& mine : all) EXPECT_EQ(value_of(stream, mine), 99);
}

// mlx#3689: asynchronous evaluation, the inputs dropped, then somebody allocates until the pool is
// empty, trims and moves the limit, at every point of the timeline.
void squeeze(World& world, bool host_visible) {
  // With a limit every range has a block of its own; without one they share it.
  const Bytes limit = host_visible ? 4_KiB : Bytes{};
  Rig rig(world, {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible},
          {.memory_limit = limit, .reaper = false});
  if (host_visible && !rig.device->info().device_memory_host_visible) {
    return world.skip("readbacks need memory of their own here");
  }
  const auto stream = rig.stream("main", 0);
  const auto other = rig.stream("greedy", 1);
  auto in = stream->allocate(1_KiB, "in");
  const auto out = stream->allocate(1_KiB, "out");
  put(*stream, in, 3);
  run_add(rig, *stream, in, out, 1);
  auto greedy = world.task("greedy", [&] {
    rig.context->set_memory_limit(2_KiB);
    rig.context->trim();
    rig.context->set_memory_limit(limit);
    // On a discrete device a readback needs memory as well, so nobody may have taken all of it.
    if (host_visible) {
      take_all_there_is(world, rig, *other);
    } else {
      put(*other, other->allocate(1_KiB, "next"), 99);
      other->flush();
    }
  });
  in.reset();
  stream->flush();
  rig.context->trim();
  if (!host_visible) greedy.join();
  EXPECT_EQ(value_of(*stream, out), 4);
}

RUNTIME_SCENARIO(mlx_3689_drop_the_inputs_then_allocate_until_the_pool_trims) {
  squeeze(world, true);
}

RUNTIME_SCENARIO(mlx_3689_new_limits_and_trims_on_a_discrete_device) { squeeze(world, false); }

// The same with the work held up for certain while everything else is taken: recorded, submitted,
// and finished but not read.
RUNTIME_SCENARIO(mlx_3689_nothing_in_flight_is_taken_at_the_limit) {
  Rig rig(world, {.queues = 2, .helpers = 0}, {.memory_limit = 4_KiB, .reaper = false});
  if (!rig.has_queues(2)) return world.skip("a stream goes on beside one that is held up");
  if (!rig.device->info().device_memory_host_visible) {
    return world.skip("readbacks need memory of their own here");
  }
  const auto stream = rig.stream("main", 0);
  const auto other = rig.stream("greedy", 1);
  const auto out = stream->allocate(1_KiB, "out");
  Gate gate(*rig.context);
  auto in = stream->allocate(1_KiB, "in");
  put(*stream, in, 3);
  stream->wait_for(gate.point());
  run_add(rig, *stream, in, out, 1);
  in.reset();
  take_all_there_is(world, rig, *other);
  const hal::Point point = stream->flush();
  take_all_there_is(world, rig, *other);
  gate.open();
  ASSERT_TRUE(until_done(point));
  take_all_there_is(world, rig, *other);
  EXPECT_EQ(value_of(*stream, out), 4);
}

// mlx#3350: a cache whose size grows. Twice its last size is room enough for the old one and the
// new one, and so it is for all of them one after another.
RUNTIME_SCENARIO(mlx_3350_growing_sizes_fit_in_twice_the_live_bytes) {
  Rig rig(world, {.queues = 1, .helpers = 0}, {.memory_limit = 6_KiB, .reaper = false});
  const auto stream = rig.stream("decode");
  auto cache = stream->allocate(256_B, "cache");
  put(*stream, cache, 1);
  for (uint64_t size = 512; size <= 3072; size += 512) {
    auto grown = stream->allocate(Bytes{size}, "cache");
    stream->copy(part(cache, 0, 256, Access::read), part(grown, 0, 256, Access::write));
    run_affine(rig, *stream, part(grown, 0, 256, Access::read_write), 1);
    stream->flush();
    cache = std::move(grown);
  }
  stream->synchronize(patient());
  rig.context->trim();
  if (!world.has_faults()) {
    EXPECT_LE(rig.stats().memory.reserved_peak, cache->size() * 2);
    EXPECT_EQ(rig.stats().memory.reserved, cache->size());
  }
  EXPECT_EQ(bytes_of(*stream, cache)[0], 127);
}

// The same without a limit: the pool's own slack and a block are all that is held beyond what is
// live, or was deferred at once.
void grow_without_limit(World& world, bool in_flight) {
  // A simulation scribbles over all that dies.
  const bool simulated = world.mode() == World::Mode::adversary;
  const Bytes unit = simulated ? 1_KiB : 1_MiB;
  const uint64_t last = simulated ? 16 : 640;
  const uint64_t fraction = simulated ? 2 : 16;
  const Bytes slack = simulated ? 1_MiB : 96_MiB;
  Rig rig(world);
  const auto stream = rig.stream("decode");
  Ref<hal::Allocation> cache = stream->allocate(unit, "cache");
  put(*stream, cache, 1);
  for (uint64_t units = 2; units <= last; units += units / fraction + 1) {
    auto grown = stream->allocate(unit * units, "cache");
    stream->copy(part(cache, 0, 64, Access::read), part(grown, 0, 64, Access::write));
    const hal::Point point = stream->flush();
    const MemoryStats both = rig.stats().memory;
    const Bytes needed = both.live + (in_flight ? both.deferred_peak : Bytes{});
    EXPECT_LE(both.reserved, needed * 3 / 2 + slack) << units;
    cache = std::move(grown);
    if (in_flight) continue;
    ASSERT_TRUE(until_done(point));
    rig.context->retire();
    const MemoryStats after = rig.stats().memory;
    EXPECT_LE(after.reserved, after.live * 9 / 4 + slack) << "old and new, at " << units;
  }
  stream->synchronize(patient());
  rig.context->trim();
  EXPECT_LE(rig.stats().memory.reserved, cache->size() * 9 / 8 + 1_MiB);
}

RUNTIME_SCENARIO(mlx_3350_sizes_that_grow_do_not_strand_memory) {
  grow_without_limit(world, false);
}

RUNTIME_SCENARIO(mlx_3350_sizes_that_grow_while_in_flight_do_not_strand_memory) {
  grow_without_limit(world, true);
}

// Small ones beside: crumbs must not pin the memory that has grown out of its blocks.
RUNTIME_SCENARIO(mlx_3350_small_survivors_do_not_pin_the_growing_memory) {
  const bool simulated = world.mode() == World::Mode::adversary;
  Rig rig(world);
  const auto stream = rig.stream("decode");
  std::vector<Ref<hal::Allocation>> survivors;
  Ref<hal::Allocation> cache;
  for (uint64_t kib = simulated ? 1 : 64; kib <= (simulated ? 16 : 128 << 10);
       kib += simulated ? kib : kib / 8) {
    cache = stream->allocate(Bytes{kib << 10}, "cache");
    survivors.push_back(stream->allocate(256_B, "survivor"));
    put(*stream, survivors.back(), static_cast<uint8_t>(kib));
    stream->synchronize(patient());
  }
  const MemoryStats now = rig.stats().memory;
  EXPECT_LE(now.reserved, now.live * 3 / 2 + (simulated ? 1_MiB : 96_MiB));
  EXPECT_EQ(value_of(*stream, survivors.front()), simulated ? 1 : 64);
}

// wgpu#3806: nobody polls, waits or submits again. What the work held is still let go.
RUNTIME_SCENARIO(wgpu_3806_memory_is_released_although_nobody_polls) {
  Event deleted;
  const Pages mine(256);
  Rig rig(world, {.queues = 1, .helpers = 0}, {});
  const auto stream = rig.stream("main");
  {
    const auto imported =
        rig.context->import({mine.data(), mine.size(), [&] { deleted.set(); }, "mine"});
    const auto x = stream->allocate(mine.size(), "x");
    put(*stream, imported, 1);
    run_add(rig, *stream, imported, x, 1);
  }
  stream->flush();
  EXPECT_TRUE(until([&] { return deleted.is_set(); }));
  EXPECT_TRUE(until([&] { return rig.stats().memory.deferred == 0_B; }));
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

// Between "its list is taken out of flight" and "its memory is free" nobody may conclude that there
// is nothing left to wait for.
RUNTIME_SCENARIO(allocation_finds_what_another_task_is_retiring) {
  Rig rig(world, {.queues = 1, .helpers = 0}, {.memory_limit = 4_MiB, .reaper = false});
  const auto stream = rig.stream("main");
  for (int round = 0; round < 12; ++round) {
    auto x = stream->allocate(3_MiB, "x");
    put(*stream, x, 1);
    const hal::Point point = stream->flush();
    x.reset();
    const auto retiring = world.task("retiring", [&] {
      rig.context->wait(point, patient());
      rig.context->retire();
    });
    // Of a kind that cannot be had before the list is over.
    EXPECT_TRUE(rig.context->allocate(3_MiB, "y", hal::MemoryKind::upload));
  }
}

}  // namespace
}  // namespace holdfast::testing
