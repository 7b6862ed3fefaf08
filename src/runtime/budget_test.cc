#include <atomic>

#include "holdfast/testing/rig.h"

// Invariants 8 and 10: what waits for the device is bounded, and nobody has to poll.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
namespace t = holdfast::testing;

const hal::CpuOptions kTwoQueues{.queues = 2, .helpers = 0};

// Submits a list that keeps `size` dead bytes until the slow kernel is released.
hal::Point keep_dead(const Slow& slow, Stream& stream, Bytes size) {
  auto x = stream.allocate(size, "dead");
  t::run_slow(slow, stream, x);
  hal::Point point = stream.flush();
  x.reset();
  return point;
}

TEST(Budget, beyond_the_limit_it_waits_for_the_oldest_and_only_until_it_is_under) {
  Rig rig(kTwoQueues, {.deferred_limit = 5_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Slow oldest(*rig.context);
  Slow newest(*rig.context);
  const hal::Point first = keep_dead(oldest, *a, 4_KiB);
  const hal::Point second = keep_dead(newest, *b, 4_KiB);
  EXPECT_EQ(rig.stats().memory.deferred, 8_KiB);
  EXPECT_TRUE(t::blocks([&] { a->flush(); }));
  EXPECT_EQ(rig.stats().waits_for(WaitReason::budget).count, 1U);
  oldest.release();
  a->flush();
  EXPECT_FALSE(first.pending());
  EXPECT_TRUE(second.pending()) << "it never drains";
  EXPECT_EQ(rig.stats().memory.deferred, 4_KiB);
  EXPECT_EQ(rig.stats().wait_count(), rig.stats().waits_for(WaitReason::budget).count);
}

TEST(Budget, below_the_limit_nothing_waits) {
  Rig rig(kTwoQueues, {.deferred_limit = 6_KiB, .reaper = false});
  const auto stream = rig.stream("a", 0);
  Slow slow(*rig.context);
  keep_dead(slow, *stream, 4_KiB);
  keep_dead(slow, *stream, 2_KiB);
  stream->flush();
  EXPECT_EQ(rig.stats().memory.deferred, 6_KiB);
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

TEST(Budget, deferred_objects_are_bounded_too) {
  Rig rig(kTwoQueues, {.deferred_objects = 2, .reaper = false});
  const auto stream = rig.stream("a", 0);
  Slow slow(*rig.context);
  {
    // Distinct classes, so that no range serves twice.
    const auto x = stream->allocate(1_KiB);
    const auto y = stream->allocate(2_KiB);
    const auto z = stream->allocate(4_KiB);
    for (const auto& each : {x, y, z}) t::run_slow(slow, *stream, each);
    stream->flush();
  }
  EXPECT_TRUE(t::blocks([&] { stream->flush(); }));
  slow.release();
  stream->flush();
  EXPECT_EQ(rig.stats().memory.deferred_objects, 0U);
}

// A list that another stream depends on is submitted without a flush.
TEST(Budget, lists_that_are_submitted_for_other_streams_count) {
  Rig rig(kTwoQueues, {.max_in_flight = 2, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(64_B);
  Slow slow(*rig.context);
  EXPECT_TRUE(t::blocks([&] {
    for (int i = 0; i < 8; ++i) {
      run_slow(slow, *a, x);
      run_slow(slow, *b, x);
    }
  }));
  EXPECT_LE(rig.stats().submissions_in_flight, 4U);
  slow.release();
}

TEST(Budget, lists_in_flight_are_bounded) {
  Rig rig(kTwoQueues, {.max_in_flight = 2, .reaper = false});
  const auto stream = rig.stream("a", 0);
  const auto x = stream->allocate(64_B);
  Slow slow(*rig.context);
  const auto submit = [&] {
    run_slow(slow, *stream, x);
    stream->flush();
  };
  submit();
  submit();
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  // The one that exceeds the limit, or at the latest the one after it, waits.
  EXPECT_TRUE(t::blocks([&] {
    submit();
    submit();
  }));
  EXPECT_EQ(rig.stats().waits_for(WaitReason::budget).count, 1U);
  EXPECT_LE(rig.stats().submissions_in_flight, 3U);
  slow.release();
  for (int i = 0; i < 50; ++i) {
    submit();
    EXPECT_LE(rig.stats().submissions_in_flight, 3U);
  }
}

TEST(Budget, deferred_bytes_never_exceed_the_limit_by_more_than_one_submission) {
  constexpr Bytes limit = 1_MiB;
  Rig rig(kTwoQueues, {.deferred_limit = limit, .reaper = false});
  const std::array streams{rig.stream("a", 0), rig.stream("b", 1)};
  Bytes largest;
  for (uint64_t i = 0; i < 600; ++i) {
    Stream& stream = *streams[i % 2];
    // Growing, so that dead ranges do not serve the next request.
    const auto x = stream.allocate(Bytes{4096 + 512 * i});
    largest = std::max(largest, x->size());
    t::put(stream, x, 1);
    stream.flush();
  }
  const MemoryStats now = rig.stats().memory;
  EXPECT_GT(now.deferred_peak, 0_B);
  EXPECT_LE(now.deferred_peak, limit + largest * 9 / 8);
}

TEST(Budget, a_submission_larger_than_the_budget_runs_alone) {
  Rig rig(kTwoQueues, {.deferred_limit = 1_KiB, .reaper = false});
  const auto stream = rig.stream();
  for (int i = 0; i < 20; ++i) {
    const auto x = stream->allocate(Bytes{64'000U + 8192U * static_cast<unsigned>(i)});
    t::put(*stream, x, 1);
    stream->flush();
    EXPECT_LE(rig.stats().memory.deferred, x->size());
  }
}

TEST(Budget, open_lists_that_hold_deferred_bytes_are_submitted) {
  Rig rig(kTwoQueues, {.deferred_limit = 1_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  auto x = a->allocate(64_KiB);
  t::put(*a, x, 1);
  x.reset();
  EXPECT_EQ(rig.stats().submissions, 0U);
  const auto y = b->allocate(64_B);
  t::put(*b, y, 2);
  EXPECT_EQ(rig.stats().submissions, 1U);
  EXPECT_LE(rig.stats().memory.deferred, 1_KiB);
}

TEST(Budget, every_open_list_that_holds_deferred_bytes_is_submitted) {
  Rig rig(kTwoQueues, {.deferred_limit = 1_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto c = rig.stream("c", 1);
  auto x = a->allocate(64_KiB);
  const auto y = b->allocate(64_B);
  t::put(*a, x, 1);
  // Submits a's list; b's stays open and needs x too.
  b->copy(t::part(x, 0, 64, Access::read), t::write_of(y));
  x.reset();
  const auto z = c->allocate(64_B);
  t::put(*c, z, 2);
  EXPECT_LE(rig.stats().memory.deferred, 1_KiB);
}

TEST(Budget, lists_that_wait_for_the_host_are_not_waited_for) {
  Rig rig(kTwoQueues, {.deferred_limit = 1_KiB, .max_in_flight = 2, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  for (uint64_t i = 0; i < 5; ++i) {
    const auto x = a->allocate(Bytes{4096 + 4096 * i});
    t::put(*a, x, 1);
    a->flush();
    // On the other queue, but behind the gated one.
    const auto y = b->allocate(x->size());
    t::run_add(rig, *b, x, y, 1);
    b->flush();
  }
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  EXPECT_GT(rig.stats().memory.deferred, 1_KiB);
  gate.open();
  rig.context->synchronize(t::patient());
  EXPECT_EQ(rig.stats().memory.deferred, 0_B);
}

TEST(Budget, beside_gated_lists_the_oldest_ungated_one_is_waited_for) {
  Rig rig(kTwoQueues, {.deferred_limit = 1_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  const auto x = a->allocate(64_B);
  t::put(*a, x, 1);
  a->flush();
  Slow slow(*rig.context);
  const hal::Point point = keep_dead(slow, *b, 4_KiB);
  EXPECT_TRUE(t::blocks([&] { a->flush(); }));
  slow.release();
  a->flush();
  EXPECT_FALSE(point.pending());
  EXPECT_EQ(rig.stats().memory.deferred, 0_B);
}

TEST(Budget, a_range_given_out_again_no_longer_counts) {
  Rig rig(kTwoQueues, {.deferred_limit = 5_KiB, .reaper = false});
  const auto stream = rig.stream("a", 0);
  Slow slow(*rig.context);
  keep_dead(slow, *stream, 4_KiB);
  for (int i = 0; i < 10; ++i) {
    keep_dead(slow, *stream, 4_KiB);
    EXPECT_EQ(rig.stats().memory.deferred, 4_KiB);
  }
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  EXPECT_EQ(rig.stats().memory.reused_in_order, 10U);
}

TEST(Retirement, it_happens_on_submit_on_wait_and_on_readback) {
  Rig rig;
  const auto stream = rig.stream("a", 0);
  const auto other = rig.stream("b", 1);
  const auto x = stream->allocate(64_B);
  const auto y = other->allocate(64_B);
  // Gated, so that it cannot end before its own submit looks.
  const auto finish_one = [&] {
    Gate gate(*rig.context);
    stream->wait_for(gate.point());
    t::put(*stream, x, 1);
    const hal::Point point = stream->flush();
    EXPECT_EQ(rig.stats().submissions_in_flight, 1U);
    gate.open();
    ASSERT_TRUE(t::until_done(point));
  };
  finish_one();
  t::put(*other, y, 1);
  const hal::Point point = other->flush();
  EXPECT_GE(rig.stats().retired, 1U) << "submit";
  ASSERT_TRUE(t::until_done(point));
  rig.context->wait(point);
  EXPECT_EQ(rig.stats().retired, 2U) << "wait";
  finish_one();
  t::bytes_of(*other, y);
  EXPECT_EQ(rig.stats().retired, 3U) << "readback of something else";
  finish_one();
  { const Map map = other->map(y, {{}, 64_B}, Access::read); }
  EXPECT_EQ(rig.stats().retired, 4U) << "map";
  finish_one();
  EXPECT_EQ(rig.context->retire(), 1U);
  EXPECT_EQ(rig.context->retire(), 0U);
  EXPECT_EQ(rig.stats().retired, 5U);
}

TEST(Retirement, never_blocks_while_lists_are_pending) {
  Rig rig;
  const auto stream = rig.stream();
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  stream->flush();
  EXPECT_EQ(rig.context->retire(), 0U);
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

TEST(Retirement, the_reaper_releases_memory_while_nobody_calls) {
  Rig rig(kTwoQueues, {});
  const auto stream = rig.stream();
  std::vector<std::byte> mine(4096);
  for (int round = 0; round < 3; ++round) {
    Event deleted;
    Gate gate(*rig.context);
    stream->wait_for(gate.point());
    t::put(*stream, rig.context->import({mine.data(), 4_KiB, [&] { deleted.set(); }, "mine"}), 1);
    stream->flush();
    gate.open();
    EXPECT_TRUE(deleted.wait()) << "round " << round;
  }
  EXPECT_TRUE(t::until([&] { return rig.stats().submissions_in_flight == 0; }));
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

TEST(Retirement, pipelines_live_until_their_list_was_seen_to_end) {
  Rig rig;
  const auto stream = rig.stream();
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  {
    const auto kernel = rig.context->create_pipeline(
        {"k", hal::HostFunction([alive = std::move(alive)](const auto&) { ++*alive; }), 0, {}});
    stream->dispatch(kernel, {}, {}, {1, 1, 1});
  }
  const hal::Point point = stream->flush();
  EXPECT_FALSE(watch.expired());
  gate.open();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_FALSE(point.failure());
  EXPECT_FALSE(watch.expired());
  rig.context->retire();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace holdfast::runtime
