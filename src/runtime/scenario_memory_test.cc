#include <atomic>

#include "holdfast/testing/rig.h"

// More failures that users met in public: memory, stalls, errors.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

// 24
TEST(RuntimeScenario, mlx_3350_sizes_that_grow_do_not_strand_memory) {
  for (const bool in_flight : {false, true}) {
    Rig rig;
    const auto stream = rig.stream();
    constexpr Bytes slack = 96_MiB;  // the pool's own, and a block
    Ref<hal::Allocation> cache = stream->allocate(1_MiB, "cache");
    t::put(*stream, cache, 1);
    for (uint64_t mib = 2; mib <= 640; mib += mib / 16 + 1) {
      auto grown = stream->allocate(Bytes{mib << 20}, "cache");
      stream->copy(t::part(cache, 0, 64, Access::read), t::part(grown, 0, 64, Access::write));
      const hal::Point point = stream->flush();
      const MemoryStats both = rig.stats().memory;
      // The budget allows what was deferred at once; beyond that nothing may pile up.
      const Bytes needed = both.live + (in_flight ? both.deferred_peak : Bytes{});
      EXPECT_LE(both.reserved, needed * 3 / 2 + slack) << mib << " MiB";
      cache = std::move(grown);
      if (in_flight) continue;
      ASSERT_TRUE(t::until_done(point));
      rig.context->retire();
      const MemoryStats after = rig.stats().memory;
      EXPECT_LE(after.reserved, after.live * 9 / 4 + slack) << "old and new, at " << mib << " MiB";
    }
    rig.context->synchronize();
    rig.context->trim();
    EXPECT_LE(rig.stats().memory.reserved, cache->size() * 9 / 8 + 1_MiB);
  }
}

// 24, with small arrays beside: blocks must not be pinned by crumbs.
TEST(RuntimeScenario, mlx_3350_small_survivors_do_not_pin_the_growing_memory) {
  Rig rig;
  const auto stream = rig.stream();
  std::vector<Ref<hal::Allocation>> survivors;
  Ref<hal::Allocation> cache;
  for (uint64_t kib = 64; kib <= 128 << 10; kib += kib / 8) {
    cache = stream->allocate(Bytes{kib << 10}, "cache");
    survivors.push_back(stream->allocate(256_B));
    t::put(*stream, survivors.back(), 1);
    stream->synchronize();
  }
  const MemoryStats now = rig.stats().memory;
  EXPECT_LE(now.reserved, now.live * 3 / 2 + 96_MiB);
}

// 25
TEST(RuntimeScenario, wgpu_3806_a_program_that_never_polls_still_gets_its_memory_back) {
  Rig rig({.queues = 1, .helpers = 0}, {});
  const auto stream = rig.stream();
  Event deleted;
  std::vector<std::byte> mine(4096);
  {
    const auto imported = rig.context->import({mine.data(), 4_KiB, [&] { deleted.set(); }, "mine"});
    const auto x = stream->allocate(64_KiB);
    t::put(*stream, imported, 1);
    t::put(*stream, x, 1);
  }
  stream->flush();
  // No call into the runtime from here on.
  EXPECT_TRUE(deleted.wait());
  EXPECT_TRUE(t::until([&] { return rig.stats().memory.deferred == 0_B; }));
}

// 26
TEST(RuntimeScenario, burn_2032_a_blocked_readback_holds_nobody_up) {
  for (const bool host_visible : {true, false}) {
    Rig rig({.queues = 3, .helpers = 0, .device_memory_host_visible = host_visible});
    const auto gated = rig.stream("gated", 0);
    const auto other = rig.stream("other", 1);
    Gate gate(*rig.context);
    const auto x = gated->allocate(64_B);
    gated->wait_for(gate.point());
    t::put(*gated, x, 5);
    Event reading;
    std::vector<std::byte> data(64);
    sync::Thread reader("reader", [&] {
      WaitLimit limit = t::patient();
      limit.interrupted = [&] { return reading.set(), false; };
      gated->readback(x, {}, data, limit);
    });
    ASSERT_TRUE(reading.wait());
    for (uint8_t i = 0; i < 20; ++i) {
      const auto y = other->allocate(64_B);
      t::put(*other, y, i);
      ASSERT_TRUE(t::until_done(other->flush()));
      const auto z = gated->allocate(64_B);
      t::put(*gated, z, i);
      gated->flush();
    }
    EXPECT_EQ(rig.stats().wait_count(), 0U);
    gate.open();
    reader.join();
    EXPECT_EQ(data, std::vector<std::byte>(64, std::byte{5}));
  }
}

// 27
TEST(RuntimeScenario, mlx_1828_a_chain_of_ten_thousand_takes_no_more_holds_or_barriers_each) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto affine = rig.affine();
  t::put(*stream, x, 0);
  uint8_t expected = 0;
  for (int i = 0; i < 10'000; ++i) {
    t::run_affine(rig, *stream, t::in_place(x), 1);
    expected = static_cast<uint8_t>(2 * expected + 1);
  }
  EXPECT_EQ(rig.stats().barriers, 10'000U);
  EXPECT_EQ(rig.stats().holds, 2U);
  EXPECT_EQ(rig.stats().submissions, 0U);
  EXPECT_EQ(t::value_of(*stream, x), expected);
}

// 30
TEST(RuntimeScenario, mlx_4174_a_failure_while_executing_is_never_silent_zeros) {
  for (const bool host_visible : {true, false}) {
    Rig rig({.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible});
    const auto a = rig.stream("a", 0);
    const auto b = rig.stream("b", 1);
    const auto x = a->allocate(64_B);
    const auto y = b->allocate(64_B);
    t::run_explode(rig, *a, x, "attention");
    t::run_add(rig, *b, x, y, 1);
    const auto cause = ThrowsMessage<ExecutionError>(HasSubstr("attention"));
    EXPECT_THAT([&] { t::bytes_of(*b, y); }, cause);
    EXPECT_THAT([&] { t::bytes_of(*a, x); }, cause);
    EXPECT_THAT([&] { a->synchronize(); }, cause);
    t::put(*a, x, 2);
    t::run_add(rig, *b, x, y, 1);
    EXPECT_EQ(t::value_of(*b, y), 3) << "the streams work on";
  }
}

}  // namespace
}  // namespace holdfast::runtime
