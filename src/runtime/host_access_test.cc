#include <algorithm>
#include <atomic>

#include "holdfast/testing/rig.h"

// Upload and readback, on devices whose memory the host reaches and on others.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
namespace t = holdfast::testing;

class OnBoth : public ::testing::TestWithParam<bool> {
 protected:
  Rig rig{{.queues = 2, .helpers = 0, .device_memory_host_visible = GetParam()}};
  Ref<Stream> a = rig.stream("a", 0);
  Ref<Stream> b = rig.stream("b", 1);
  Ref<hal::Allocation> x = a->allocate(64_B, "x");
  Ref<hal::Allocation> y = b->allocate(64_B, "y");
};
class Upload : public OnBoth {};
class Readback : public OnBoth {};
const auto kKinds = ::testing::Values(true, false);
const auto kKindName = [](const auto& info) { return info.param ? "host_visible" : "discrete"; };
INSTANTIATE_TEST_SUITE_P(Memory, Upload, kKinds, kKindName);
INSTANTIATE_TEST_SUITE_P(Memory, Readback, kKinds, kKindName);

TEST_P(Upload, owns_the_data_before_it_returns) {
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  std::vector<std::byte> data(64, std::byte{3});
  a->upload(x, {}, data);
  std::ranges::fill(data, std::byte{99});
  a->copy(t::read_of(x), t::write_of(y));
  gate.open();
  EXPECT_EQ(t::value_of(*a, y), 3);
}

TEST_P(Upload, is_ordered_after_what_was_recorded_before_and_before_what_follows) {
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  t::put(*a, x, 1);
  t::run_add(rig, *a, x, y, 0);
  a->upload(x, {}, std::vector<std::byte>(64, std::byte{5}));
  const auto z = a->allocate(64_B);
  t::run_add(rig, *a, x, z, 1);
  EXPECT_EQ(rig.stats().wait_count(), 0U) << "an upload never waits";
  gate.open();
  EXPECT_EQ(t::value_of(*a, y), 1);
  EXPECT_EQ(t::value_of(*a, z), 6);
}

TEST_P(Upload, is_ordered_after_another_streams_use) {
  t::put(*b, x, 1);
  ASSERT_TRUE(t::until_done(b->flush()));
  Gate gate(*rig.context);
  b->wait_for(gate.point());
  t::run_add(rig, *b, x, y, 0);
  a->upload(x, {}, std::vector<std::byte>(64, std::byte{5}));
  const hal::Point point = a->flush();
  EXPECT_TRUE(point.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*b, y), 1);
  EXPECT_EQ(t::value_of(*a, x), 5);
}

TEST_P(Upload, to_imported_memory_behind_an_explicit_wait_comes_after_it) {
  // Whoever signals the Point may still be reading that memory outside Holdfast.
  std::vector<uint8_t> mine(64, 1);
  const auto imported = rig.context->import({mine.data(), 64_B, {}, "mine"});
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  a->upload(imported, {}, std::vector<std::byte>(64, std::byte{5}));
  const hal::Point point = a->flush();
  EXPECT_TRUE(point.pending());
  EXPECT_EQ(mine[0], 1);
  gate.open();
  EXPECT_EQ(t::value_of(*a, imported), 5);
  EXPECT_EQ(mine[63], 5);
}

TEST_P(Upload, odd_offsets_and_lengths_are_byte_exact) {
  t::put(*a, x, 1);
  a->upload(x, 7_B, std::vector<std::byte>(13, std::byte{5}));
  a->upload(x, 64_B, {});
  const auto bytes = t::bytes_of(*a, x);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(bytes[i], i >= 7 && i < 20 ? 5 : 1) << i;
  std::vector<std::byte> part(3);
  b->readback(x, 19_B, part);
  EXPECT_EQ(part, (std::vector{std::byte{5}, std::byte{1}, std::byte{1}}));
}

TEST_P(Readback, waits_for_the_ranges_last_writer_on_whichever_stream) {
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  t::put(*a, x, 4);
  // The writer's list is still open, and the reader is another stream.
  Event reading;
  std::vector<std::byte> data(64);
  sync::Thread reader("reader", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return reading.set(), false; };
    b->readback(x, {}, data, limit);
  });
  ASSERT_TRUE(reading.wait());
  EXPECT_EQ(data[0], std::byte{});
  gate.open();
  reader.join();
  EXPECT_EQ(data, std::vector<std::byte>(64, std::byte{4}));
}

TEST_P(Readback, does_not_wait_for_readers_or_for_later_work_of_its_own_stream) {
  t::put(*a, x, 4);
  ASSERT_TRUE(t::until_done(a->flush()));
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  t::run_add(rig, *a, x, y, 1);
  const hal::Point later = a->flush();
  EXPECT_EQ(t::value_of(*a, x), 4);
  EXPECT_TRUE(later.pending());
}

TEST_P(Readback, does_not_wait_for_the_writer_of_another_slice) {
  t::put(*a, x, 4);
  ASSERT_TRUE(t::until_done(a->flush()));
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  a->fill(t::part(x, 0, 32, Access::write), std::byte{5});
  const hal::Point later = a->flush();
  std::vector<std::byte> half(32);
  b->readback(x, 32_B, half, t::patient());
  EXPECT_EQ(half[0], std::byte{4});
  EXPECT_TRUE(later.pending());
}

TEST_P(Readback, is_never_torn_where_another_thread_overwrites_right_after) {
  for (uint8_t i = 0; i < 100; ++i) {
    t::put(*a, x, i);
    std::vector<std::byte> data(64);
    Event go;
    sync::Thread writer("writer", [&] {
      (void)go.wait();
      t::put(*b, x, 255);
      b->flush();
    });
    go.set();
    b->readback(x, {}, data, t::patient());
    writer.join();
    const bool old_bytes = data == std::vector<std::byte>(64, std::byte{i});
    const bool new_bytes = data == std::vector<std::byte>(64, std::byte{255});
    EXPECT_TRUE(old_bytes || new_bytes);
  }
}

TEST_P(Readback, an_overwrite_recorded_while_it_waits_comes_wholly_before_or_after_it) {
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  t::put(*a, x, 4);
  a->flush();
  Event reading;
  std::vector<std::byte> data(64);
  sync::Thread reader("reader", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return reading.set(), false; };
    b->readback(x, {}, data, limit);
  });
  ASSERT_TRUE(reading.wait());
  sync::Thread writer("writer", [&] { t::put(*a, x, 9); });
  gate.open();
  writer.join();
  reader.join();
  const bool before = data == std::vector<std::byte>(64, std::byte{9});
  const bool after = data == std::vector<std::byte>(64, std::byte{4});
  EXPECT_TRUE(before || after);
  EXPECT_EQ(t::value_of(*a, x), 9);
}

TEST_P(Readback, is_not_held_up_by_another_threads_blocked_readback) {
  Rig wide({.queues = 4, .helpers = 0, .device_memory_host_visible = GetParam()});
  const auto gated = wide.stream("gated", 0);
  const auto free = wide.stream("free", 1);
  const auto last = wide.stream("last", 3);
  Gate gate(*wide.context);
  const auto g = gated->allocate(64_B);
  const auto f = free->allocate(64_B);
  const auto l = last->allocate(64_B);
  gated->wait_for(gate.point());
  t::put(*gated, g, 1);
  gated->flush();
  t::put(*free, f, 2);
  ASSERT_TRUE(t::until_done(free->flush()));
  Event blocked;
  sync::Thread reader("blocked", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return blocked.set(), false; };
    std::vector<std::byte> data(64);
    gated->readback(g, {}, data, limit);
  });
  ASSERT_TRUE(blocked.wait());
  std::vector<std::byte> data(64);
  const WaitLimit limit = WaitLimit::after(std::chrono::seconds(5));
  EXPECT_NO_THROW(free->readback(f, {}, data, limit)) << "its writer has finished long ago";
  t::put(*last, l, 3);
  const hal::Point other_work = last->flush();
  EXPECT_NO_THROW(wide.context->wait(other_work, limit)) << "nor may it hold up other streams";
  gate.open();
  reader.join();
}

TEST_P(Readback, a_failure_reaches_only_those_who_read_what_failed) {
  t::put(*a, y, 7);
  a->synchronize();
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  t::run_explode(rig, *a, x);
  a->flush();
  // Whatever the readbacks submit comes later: one queue is held up, of the other somebody else has
  // the turn.
  std::atomic<int> good{0};
  std::atomic<int> bad{0};
  std::atomic<int> began{0};
  std::vector<sync::Thread> readers;
  {
    const auto turn = rig.device->queues()[1]->take_turn();
    for (const auto& from : {x, y}) {
      readers.emplace_back("reader", [this, from, &good, &bad, &began] {
        ++began;
        try {
          t::bytes_of(*b, from);
          ++good;
        } catch (const ExecutionError&) {
          ++bad;
        }
      });
    }
    ASSERT_TRUE(t::until([&] { return began == 2; }));
  }
  gate.open();
  readers.clear();
  EXPECT_EQ(bad, 1);
  EXPECT_EQ(good, 1) << "y was never touched by the list that failed";
}

TEST_P(Readback, does_not_wait_for_readers_however_many_they_are) {
  t::put(*a, x, 7);
  a->synchronize();
  Gate gate(*rig.context);
  b->wait_for(gate.point());
  // More lists than an Allocation tells apart.
  for (int i = 0; i < 40; ++i) {
    t::run_add(rig, *b, x, y, 1);
    b->flush();
  }
  std::vector<std::byte> data(64);
  a->readback(x, {}, data, t::patient());
  EXPECT_EQ(data, std::vector<std::byte>(64, std::byte{7}));
}

TEST(WaitForWriters, waits_for_the_writers_of_the_memory_and_for_nothing_else) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(64_B, "x");
  const auto y = b->allocate(64_B, "y");
  Gate gate(*rig.context);
  b->wait_for(gate.point());
  t::put(*b, y, 1);
  b->flush();
  t::put(*a, x, 2);
  t::run_affine(rig, *a, t::in_place(x), 1);
  const uint64_t before = rig.stats().submissions;
  a->wait_for(x, t::patient());  // recorded, not submitted: the wait submits it
  EXPECT_EQ(rig.stats().submissions, before + 1);
  EXPECT_EQ(t::bytes_of(*a, x), std::vector<uint8_t>(64, 5));
  EXPECT_THROW(a->wait_for(y, WaitLimit::after(std::chrono::milliseconds(1))), TimeoutError);
  gate.open();
  a->wait_for(y, t::patient());
}

TEST(WaitForWriters, raises_what_a_failed_one_left_and_a_look_does_so_without_waiting) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B, "x");
  t::put(*stream, x, 1);
  EXPECT_NO_THROW(stream->raise_failure_of(x));
  t::run_explode(rig, *stream, x);
  EXPECT_NO_THROW(stream->raise_failure_of(x)) << "nobody has seen it yet";
  EXPECT_THROW(stream->wait_for(x, t::patient()), ExecutionError);
  EXPECT_THROW(stream->raise_failure_of(x), ExecutionError);
  EXPECT_THROW(stream->wait_for(nullptr), UsageError);
}

}  // namespace
}  // namespace holdfast::runtime
