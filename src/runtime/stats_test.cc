#include "holdfast/runtime/stats.h"

#include <atomic>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace t = holdfast::testing;

TEST(RuntimeStats, memory_is_live_then_deferred_then_pooled_and_peaks_stay) {
  Rig rig;
  const auto stream = rig.stream();
  EXPECT_EQ(rig.stats().memory.reserved, 0_B);
  auto x = stream->allocate(4_KiB);
  MemoryStats now = rig.stats().memory;
  EXPECT_EQ(now.live, 4_KiB);
  EXPECT_EQ(now.live_objects, 1U);
  EXPECT_EQ(now.allocations, 1U);
  EXPECT_EQ(now.device_buffers, 1U);
  EXPECT_EQ(now.live + now.pooled, now.reserved);
  t::put(*stream, x, 1);
  x.reset();
  now = rig.stats().memory;
  EXPECT_EQ(now.live, 0_B);
  EXPECT_EQ(now.deferred, 4_KiB);
  EXPECT_EQ(now.deferred_objects, 1U);
  EXPECT_EQ(now.deferred + now.pooled, now.reserved);
  ASSERT_TRUE(t::until_done(stream->flush()));
  rig.context->retire();
  now = rig.stats().memory;
  EXPECT_EQ(now.deferred, 0_B);
  EXPECT_EQ(now.pooled, now.reserved);
  EXPECT_EQ(now.live_peak, 4_KiB);
  EXPECT_EQ(now.deferred_peak, 4_KiB);
  EXPECT_EQ(now.reserved_peak, now.reserved);
}

TEST(RuntimeStats, imports_count_as_device_buffers_and_not_as_reserved) {
  Rig rig;
  std::vector<std::byte> mine(4096);
  const auto imported = rig.context->import({mine.data(), 4_KiB, {}, "mine"});
  const MemoryStats now = rig.stats().memory;
  EXPECT_EQ(now.device_buffers, 1U);
  EXPECT_EQ(now.reserved, 0_B);
}

TEST(RuntimeStats, a_repeated_bind_takes_one_hold) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto affine = rig.affine();
  const uint64_t before = rig.stats().holds;
  for (uint8_t i = 0; i < 10; ++i) t::run_affine(rig, *stream, t::in_place(x), i);
  EXPECT_EQ(rig.stats().holds - before, 2U) << "the allocation and the kernel";
  stream->flush();
  t::run_affine(rig, *stream, t::in_place(x), 1);
  EXPECT_EQ(rig.stats().holds - before, 4U) << "a new list holds anew";
}

TEST(RuntimeStats, commands_submissions_retirements_and_failures_add_up) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  for (int i = 0; i < 3; ++i) {
    t::put(*stream, x, 1);
    t::run_affine(rig, *stream, t::in_place(x), 1);
    ASSERT_TRUE(t::until_done(stream->flush()));
  }
  t::run_explode(rig, *stream, x);
  ASSERT_TRUE(t::until_done(stream->flush()));
  rig.context->retire();
  const RuntimeStats now = rig.stats();
  EXPECT_EQ(now.commands, 7U);
  EXPECT_EQ(now.barriers, 3U);
  EXPECT_EQ(now.submissions, 4U);
  EXPECT_EQ(now.retired, 4U);
  EXPECT_EQ(now.submissions_in_flight, 0U);
  EXPECT_EQ(now.failures, 1U);
  EXPECT_THAT(to_string(now),
              AllOf(HasSubstr("7 commands"), HasSubstr("1 failed"), HasSubstr("waits: none")));
}

TEST(RuntimeStats, counters_survive_the_context_being_closed) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  stream->synchronize();
  rig.context->close();
  EXPECT_EQ(rig.stats().commands, 1U);
}

TEST(RuntimeStats, the_snapshot_names_ranges_and_the_lists_that_need_them) {
  Rig rig;
  const auto flying = rig.stream("flying", 0);
  const auto open = rig.stream("opened", 1);
  Gate gate(*rig.context);
  flying->wait_for(gate.point());
  auto dead = flying->allocate(64_KiB, "old heap");
  const auto live = open->allocate(4_KiB, "weights");
  t::put(*flying, dead, 1);
  flying->flush();
  t::put(*open, live, 1);
  dead.reset();
  const Snapshot snapshot = rig.context->who_holds_what();
  ASSERT_EQ(snapshot.ranges.size(), 2U);
  EXPECT_THAT(snapshot.ranges[0].what, HasSubstr("old heap")) << "largest first";
  EXPECT_TRUE(snapshot.ranges[0].deferred);
  EXPECT_EQ(snapshot.ranges[0].waits_for.size(), 1U);
  EXPECT_THAT(snapshot.ranges[1].what, HasSubstr("weights"));
  EXPECT_EQ(snapshot.ranges[1].users, 1U);
  EXPECT_FALSE(snapshot.ranges[1].deferred);
  ASSERT_EQ(snapshot.lists.size(), 2U);
  EXPECT_THAT(snapshot.lists[0].what, HasSubstr("flying")) << "oldest first";
  EXPECT_EQ(snapshot.lists[0].held, 64_KiB);
  EXPECT_THAT(snapshot.lists[1].where, HasSubstr("opened"));
  const std::string text = to_string(snapshot, 1);
  EXPECT_THAT(text, AllOf(HasSubstr("old heap"), HasSubstr("1 further range"),
                          HasSubstr(snapshot.lists[0].what), HasSubstr("1 further list")));
}

TEST(RuntimeStats, reading_them_is_safe_while_everything_changes) {
  Rig rig({.queues = 2, .helpers = 0}, {});
  Event done;
  uint64_t looks = 0;
  sync::Thread reader("reader", [&] {
    do {
      const RuntimeStats now = rig.stats();
      EXPECT_LE(now.retired, now.submissions + 1);
      EXPECT_FALSE(to_string(rig.context->who_holds_what()).empty() && now.memory.live_objects > 8);
      ++looks;
    } while (!done.is_set());
  });
  for (int round = 0; round < 100; ++round) {
    const auto stream = rig.stream();
    const auto x = stream->allocate(Bytes{1024U * static_cast<unsigned>(round + 1)});
    t::put(*stream, x, 1);
    stream->flush();
  }
  done.set();
  reader.join();
  EXPECT_GT(looks, 0U);
  EXPECT_EQ(rig.stats().commands, 100U);
}

}  // namespace
}  // namespace holdfast::runtime
