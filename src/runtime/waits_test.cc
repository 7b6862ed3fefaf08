#include "holdfast/runtime/waits.h"

#include <atomic>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

struct Gated {
  explicit Gated(hal::CpuOptions options = {.queues = 2, .helpers = 0}) : rig(std::move(options)) {
    stream->wait_for(gate.point());
    t::put(*stream, x, 5);
    point = stream->flush();
  }
  Rig rig;
  Gate gate{*rig.context};
  Ref<Stream> stream = rig.stream("s", 0);
  Ref<hal::Allocation> x = stream->allocate(64_B);
  hal::Point point;
  std::vector<std::byte> data = std::vector<std::byte>(64);
};

const WaitLimit kNoTime = WaitLimit::after({});

TEST(Waits, only_waits_that_block_are_counted) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  const hal::Point point = stream->flush();
  ASSERT_TRUE(t::until_done(point));
  rig.context->wait(point);
  rig.context->wait({});
  stream->synchronize();
  rig.context->synchronize();
  t::bytes_of(*stream, x);
  { const Map map = stream->map(x, {{}, 64_B}, Access::read_write); }
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  EXPECT_EQ(rig.stats().wait_time(), sync::Duration{});
}

TEST(Waits, each_blocking_wait_is_counted_once_under_its_reason) {
  Gated s;
  struct Case {
    WaitReason reason;
    std::function<void()> wait;
  };
  const std::vector<Case> cases{
      {WaitReason::point, [&] { s.rig.context->wait(s.point, kNoTime); }},
      {WaitReason::synchronize, [&] { s.stream->synchronize(kNoTime); }},
      {WaitReason::readback, [&] { s.stream->readback(s.x, {}, s.data, kNoTime); }},
      {WaitReason::map,
       [&] {
         s.stream->map(s.x, {{}, 64_B}, Access::read, kNoTime);
       }},
  };
  uint64_t all = 0;
  for (const Case& c : cases) {
    EXPECT_THROW(c.wait(), TimeoutError) << to_string(c.reason);
    EXPECT_EQ(s.rig.stats().waits_for(c.reason).count, 1U) << to_string(c.reason);
    EXPECT_EQ(s.rig.stats().wait_count(), ++all);
  }
  const WaitStats one = s.rig.stats().waits_for(WaitReason::point);
  EXPECT_GT(one.total.count(), 0);
  EXPECT_EQ(one.total, one.longest);
}

TEST(Waits, a_timeout_names_what_was_waited_for_and_loses_nothing) {
  for (const bool host_visible : {true, false}) {
    Gated s({.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible});
    EXPECT_THAT([&] { s.rig.context->wait(s.point, kNoTime); },
                ThrowsMessage<TimeoutError>(HasSubstr("point")));
    EXPECT_THROW(s.stream->synchronize(kNoTime), TimeoutError);
    EXPECT_THROW(s.stream->readback(s.x, {}, s.data, kNoTime), TimeoutError);
    EXPECT_THROW(s.rig.context->synchronize(kNoTime), TimeoutError);
    s.gate.open();
    EXPECT_NO_THROW(s.rig.context->wait(s.point, t::patient()));
    EXPECT_EQ(t::value_of(*s.stream, s.x), 5);
  }
}

TEST(Waits, interrupting_ends_a_wait_that_can_be_made_again) {
  Gated s;
  EXPECT_TRUE(t::blocks([&] { s.rig.context->wait(s.point); }));
  EXPECT_TRUE(t::blocks([&] { s.stream->synchronize(); }));
  EXPECT_TRUE(t::blocks([&] { s.stream->readback(s.x, {}, s.data); }));
  EXPECT_TRUE(t::blocks([&] { s.stream->map(s.x, {{}, 64_B}, Access::read); }));
  s.gate.open();
  EXPECT_NO_THROW(s.rig.context->wait(s.point));
  EXPECT_EQ(t::value_of(*s.stream, s.x), 5);
}

TEST(Waits, an_interruption_does_not_reach_waits_that_start_later) {
  Gated s;
  interrupt_waits();
  s.gate.open();
  EXPECT_NO_THROW(s.rig.context->wait(s.point));
}

TEST(Waits, one_interruption_ends_all_waits_under_way) {
  Gated s;
  std::array<Event, 3> waiting;
  std::atomic<int> interrupted{0};
  std::vector<sync::Thread> threads;
  for (Event& event : waiting) {
    threads.emplace_back("waiter", [&] {
      WaitLimit limit = t::patient();
      limit.interrupted = [&] { return event.set(), false; };
      try {
        s.rig.context->wait(s.point, limit);
      } catch (const InterruptedError&) {
        ++interrupted;
      }
    });
  }
  for (Event& event : waiting) ASSERT_TRUE(event.wait());
  interrupt_waits();
  threads.clear();
  EXPECT_EQ(interrupted, 3);
}

TEST(Waits, the_callback_ends_the_wait_on_the_waiting_task) {
  Gated s;
  WaitLimit limit = t::patient();
  int asked = 0;
  limit.interrupted = [&] { return ++asked == 3; };
  EXPECT_THROW(s.rig.context->wait(s.point, limit), InterruptedError);
  EXPECT_EQ(asked, 3);
  limit.interrupted = []() -> bool { throw std::logic_error("KeyboardInterrupt"); };
  EXPECT_THROW(s.rig.context->wait(s.point, limit), std::logic_error);
  EXPECT_THROW(s.stream->readback(s.x, {}, s.data, limit), std::logic_error);
  EXPECT_EQ(s.rig.stats().waits_for(WaitReason::point).count, 2U) << "counted however it ended";
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.stream, s.x), 5);
}

TEST(Waits, waiting_for_a_busy_queues_turn_is_counted) {
  Rig rig;
  const auto stream = rig.stream("s", 0);
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  {
    const auto turn = rig.device->queues()[0]->take_turn();
    EXPECT_TRUE(t::blocks([&] { stream->flush(); }));
    EXPECT_EQ(rig.stats().waits_for(WaitReason::submission_turn).count, 1U);
  }
  EXPECT_EQ(rig.stats().submissions, 0U);
  EXPECT_EQ(t::value_of(*stream, x), 1) << "the interrupted flush lost nothing";
}

TEST(Waits, binding_what_is_being_read_back_waits_and_is_counted) {
  Rig rig(t::discrete(1));
  const auto stream = rig.stream("s");
  const auto x = stream->allocate(64_B, "x");
  const auto y = stream->allocate(64_B, "y");
  t::put(*stream, x, 5);
  stream->synchronize(t::patient());
  t::Slow slow(*rig.context);
  t::run_slow(slow, *stream, y);
  stream->flush();
  ASSERT_TRUE(slow.wait_until_running());
  Event reading;
  Event go_on;
  std::vector<std::byte> data(64);
  sync::Thread reader("reader", [&] {
    WaitLimit limit = t::patient();
    // Stays in the middle of the readback's copy, where interrupt_waits() does not reach it.
    limit.interrupted = [&] {
      reading.set();
      return !go_on.wait();
    };
    stream->readback(x, {}, data, limit);
  });
  ASSERT_TRUE(reading.wait());
  EXPECT_TRUE(t::blocks([&] { stream->fill(t::write_of(x), std::byte{9}); }));
  EXPECT_EQ(rig.stats().waits_for(WaitReason::host_access).count, 1U);
  EXPECT_NO_THROW(stream->fill(t::write_of(y), std::byte{1})) << "other memory is not held up";
  slow.release();
  go_on.set();
  reader.join();
  EXPECT_EQ(data, std::vector<std::byte>(64, std::byte{5}));
  stream->fill(t::write_of(x), std::byte{9});
  EXPECT_EQ(t::value_of(*stream, x), 9);
}

TEST(Waits, in_steady_state_with_a_device_that_keeps_up_the_count_is_zero) {
  Rig rig({.queues = 2, .helpers = 0}, {});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  for (uint8_t i = 0; i < 200; ++i) {
    const auto x = a->allocate(Bytes{4096U + 256U * i});
    const auto y = b->allocate(x->size());
    t::put(*a, x, i);
    t::run_add(rig, *b, x, y, 1);
    a->flush();
    ASSERT_TRUE(t::until_done(b->flush()));
  }
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

}  // namespace
}  // namespace holdfast::runtime
