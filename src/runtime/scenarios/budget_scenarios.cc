#include <algorithm>

#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Bounds of what waits for the device, and who waits to keep them.
namespace holdfast::testing {
namespace {

using hal::Access;
using runtime::WaitReason;

// Launches of a scratch heap that grows, each with its own metadata, submitted one by one.
class Launches {
 public:
  Launches(Rig& rig, const std::string& name)
      : stream_(rig.stream(name)),
        result_(stream_->allocate(64_B, "result")),
        heap_(stream_->allocate(256_B, "heap")) {}

  // What a launch can add to the deferred bytes: its metadata, and the largest heap it displaces.
  static constexpr Bytes kDisplaces = 256_B + 512_B;

  hal::Point launch() {
    const Bytes required{std::min<uint64_t>(256 + 64 * launched_, 1024)};
    ++launched_;
    if (required > heap_->size()) {
      heap_ = stream_->allocate(std::max(required, heap_->size() * 2), "heap");
    }
    const auto metadata = stream_->allocate(256_B, "metadata", hal::MemoryKind::upload);
    {
      const runtime::Map map = stream_->map(metadata, {{}, 256_B}, Access::write);
      std::ranges::fill(map.bytes(), std::byte{launched_});
    }
    stream_->copy(read_of(metadata), part(heap_, 0, 256, Access::write));
    stream_->copy(part(heap_, 64, 64, Access::read), write_of(result_));
    return stream_->flush();
  }
  void check() const { EXPECT_EQ(value_of(*stream_, result_), launched_); }

 private:
  Ref<runtime::Stream> stream_;
  Ref<hal::Allocation> result_;
  Ref<hal::Allocation> heap_;
  uint8_t launched_ = 0;
};

// quadrants#538, workload 4: while the device keeps up, nobody waits for it.
RUNTIME_SCENARIO(quadrants_538_no_wait_while_the_device_keeps_up) {
  Rig rig(world, {.queues = 1, .helpers = 0},
          {.deferred_limit = 1_KiB, .max_in_flight = 2, .reaper = false});
  Launches launches(rig, "launches");
  for (int i = 1; i <= 12; ++i) {
    const hal::Point point = launches.launch();
    if (!world.has_faults()) {
      EXPECT_LE(rig.stats().submissions_in_flight, 1U) << "a flush retires what is finished";
    }
    ASSERT_TRUE(until_done(point));
    if (i % 6 == 0) launches.check();
  }
  if (world.has_faults()) return;
  // A readback is asked for; where it goes through memory of its own, it waits for that copy.
  const runtime::RuntimeStats stats = rig.stats();
  EXPECT_EQ(stats.wait_count(), stats.waits_for(runtime::WaitReason::readback).count);
  EXPECT_LE(stats.memory.deferred_peak, 1_KiB + Launches::kDisplaces);
}

// However often something is flushed: while nothing is over its limit, nobody waits, also where the
// device has done none of it and another stage waits for all of it.
RUNTIME_SCENARIO(quadrants_538_flushing_never_drains) {
  constexpr uint8_t flushes = 34;
  Rig rig(world);
  const bool held = world.adversary() != nullptr;
  if (held) world.adversary()->hold_back_all();
  const auto stream = rig.stream("launches", 0);
  const auto stage = rig.stream("next stage", 1);
  const auto result = stream->allocate(256_B, "result");
  const auto staged = stage->allocate(256_B, "staged");
  for (uint8_t i = 1; i <= flushes; ++i) {
    put(*stream, result, i);
    stage->wait_for(stream->flush());
  }
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().wait_count(), 0U);
    if (held) {
      EXPECT_EQ(rig.stats().submissions_in_flight, flushes);
    }
  }
  run_add(rig, *stage, result, staged, 1);
  EXPECT_EQ(value_of(*stage, staged), flushes + 1);
}

// A device that does nothing before somebody waits for it: what waits for the device stays within
// the limits, and the host waits for no more than that takes. `least` lists stay in flight.
void fall_behind(World& world, const runtime::Options& options, uint64_t least) {
  Rig rig(world, {.queues = 1, .helpers = 0}, options);
  const bool held = world.adversary() != nullptr;
  if (held) world.adversary()->hold_back_all();
  Launches launches(rig, "launches");
  for (uint64_t i = 1; i <= 10; ++i) {
    launches.launch();
    if (world.has_faults()) continue;
    const runtime::RuntimeStats now = rig.stats();
    EXPECT_LE(now.submissions_in_flight, options.max_in_flight + 1U);
    EXPECT_LE(now.memory.deferred_peak, options.deferred_limit + Launches::kDisplaces);
    if (!held) continue;
    EXPECT_GE(now.submissions_in_flight, std::min(i, least)) << "it was drained";
    EXPECT_EQ(now.wait_count(), now.retired) << "each wait is for the oldest list alone";
  }
  launches.check();
  if (world.has_faults()) return;
  const runtime::RuntimeStats now = rig.stats();
  EXPECT_EQ(now.submissions_in_flight, 0U) << "a readback retires all that it drained";
  EXPECT_EQ(now.memory.deferred, 0_B);
  EXPECT_EQ(now.wait_count(),
            now.waits_for(WaitReason::budget).count + now.waits_for(WaitReason::readback).count);
}

RUNTIME_SCENARIO(quadrants_538_submissions_in_flight_are_bounded_without_draining) {
  fall_behind(world, {.max_in_flight = 4, .reaper = false}, 5);
}

RUNTIME_SCENARIO(quadrants_538_deferred_bytes_are_bounded_without_draining) {
  fall_behind(world, {.deferred_limit = 1_KiB, .reaper = false}, 3);
}

// Two tasks that launch share the limit: each may be over it by what it has just displaced.
RUNTIME_SCENARIO(quadrants_538_two_tasks_share_the_limit) {
  Rig rig(world, {.queues = 2, .helpers = 0},
          {.deferred_limit = 512_B, .max_in_flight = 3, .reaper = false});
  const auto launch = [&](const std::string& name) {
    Launches launches(rig, name);
    for (int i = 1; i <= 4; ++i) launches.launch();
    launches.check();
  };
  auto beside = world.task("beside", [&] { launch("beside"); });
  launch("launches");
  beside.join();
  if (world.has_faults()) return;
  EXPECT_LE(rig.stats().memory.deferred_peak, 512_B + Launches::kDisplaces * 2);
}

}  // namespace
}  // namespace holdfast::testing
