#include <atomic>
#include <memory>

#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"

// Flushing, chaining and refused submits.
namespace holdfast::runtime {
namespace {

using holdfast::testing::Gate;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

TEST(Stream, flush_returns_the_point_of_the_last_list_also_when_nothing_was_recorded) {
  Rig rig;
  const auto stream = rig.stream();
  EXPECT_FALSE(stream->flush().timeline);
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  const hal::Point point = stream->flush();
  ASSERT_TRUE(point.timeline);
  EXPECT_EQ(stream->flush(), point);
  EXPECT_EQ(rig.stats().submissions, 1U);
}

TEST(Stream, nothing_runs_before_it_is_flushed) {
  Rig rig;
  const auto stream = rig.stream();
  std::atomic<int> ran{0};
  stream->native([&](const hal::NativeCall&) { ++ran; }, {});
  EXPECT_EQ(rig.stats().submissions, 0U);
  EXPECT_EQ(ran, 0);
  stream->synchronize();
  EXPECT_EQ(ran, 1);
}

TEST(Stream, dropping_the_last_ref_submits_what_was_recorded) {
  Rig rig;
  std::atomic<int> ran{0};
  {
    const auto stream = rig.stream();
    stream->native([&](const hal::NativeCall&) { ++ran; }, {});
  }
  EXPECT_EQ(rig.stats().submissions, 1U);
  EXPECT_TRUE(t::until([&] { return ran == 1; }));
  EXPECT_EQ(rig.stats().commands, 1U) << "counters outlive their stream";
}

TEST(Stream, a_chained_stream_waits_on_the_device_and_never_blocks_the_host) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  std::atomic<int> step{0};
  std::atomic<int> seen_by_b{-1};
  a->native([&](const hal::NativeCall&) { step = 1; }, {});
  b->wait_for(a->flush());
  b->native([&](const hal::NativeCall&) { seen_by_b = step.load(); }, {});
  const hal::Point point = b->flush();
  EXPECT_TRUE(point.pending());
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  gate.open();
  rig.context->wait(point, t::patient());
  EXPECT_EQ(seen_by_b, 1);
}

TEST(Stream, waiting_for_a_point_does_not_reach_back_to_what_was_recorded_before) {
  Rig rig;
  const auto stream = rig.stream();
  Gate gate(*rig.context);
  const auto before = stream->allocate(64_B);
  const auto after = stream->allocate(64_B);
  t::put(*stream, before, 1);
  stream->wait_for(gate.point());
  t::put(*stream, after, 2);
  const hal::Point last = stream->flush();
  EXPECT_EQ(t::value_of(*stream, before), 1);
  EXPECT_TRUE(last.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*stream, after), 2);
}

TEST(Stream, a_failed_point_fails_data_waits_and_meets_order_waits) {
  for (const auto kind : {hal::WaitKind::data, hal::WaitKind::order}) {
    Rig rig;
    const auto stream = rig.stream();
    Gate gate(*rig.context);
    const auto x = stream->allocate(64_B);
    stream->wait_for(gate.point(), kind);
    t::put(*stream, x, 3);
    const hal::Point point = stream->flush();
    const Failure cause(ErrorCode::execution, "the other side failed");
    gate.fail(cause);
    ASSERT_TRUE(t::until_done(point));
    if (kind == hal::WaitKind::data) {
      EXPECT_EQ(point.failure(), cause);
      EXPECT_THAT([&] { t::bytes_of(*stream, x); },
                  ThrowsMessage<ExecutionError>(HasSubstr("the other side failed")));
    } else {
      EXPECT_EQ(t::value_of(*stream, x), 3);
    }
  }
}

// A device that refuses the next `count` submits.
struct Refusing {
  explicit Refusing(Options limits = {.reaper = false}) : rig(options(), limits) {}
  std::shared_ptr<std::atomic<int>> refuse = std::make_shared<std::atomic<int>>(0);
  Rig rig;
  Ref<Stream> a = rig.stream("a", 0);
  Ref<Stream> b = rig.stream("b", 1);
  Ref<hal::Allocation> x = a->allocate(64_B, "x");
  Ref<hal::Allocation> y = b->allocate(64_B, "y");

 private:
  hal::CpuOptions options() {
    hal::CpuOptions options{.queues = 2, .helpers = 0};
    options.fail_submit = [refuse = refuse](const hal::Queue&) {
      if (refuse->load() <= 0) return Failure();
      --*refuse;
      return Failure(ErrorCode::out_of_memory, "the driver refused");
    };
    return options;
  }
};

// Whether the Point stays pending for as long as anything would need to resolve it by mistake.
bool stays_pending(const Rig& rig, const hal::Point& point) {
  try {
    rig.context->wait(point, WaitLimit::after(std::chrono::milliseconds(30)));
  } catch (const TimeoutError&) {
    return true;
  }
  return false;
}

TEST(Stream, a_refused_submit_poisons_what_the_list_wrote_and_the_stream_works_on) {
  Refusing s;
  const auto bystander = s.a->allocate(64_B);
  t::put(*s.a, bystander, 4);
  s.a->flush();
  t::put(*s.a, s.x, 1);
  *s.refuse = 1;
  EXPECT_THAT([&] { s.a->flush(); },
              ThrowsMessage<OutOfMemoryError>(HasSubstr("the driver refused")));
  EXPECT_THROW(t::bytes_of(*s.a, s.x), OutOfMemoryError);
  EXPECT_THROW(t::run_add(s.rig, *s.b, s.x, s.y, 1), OutOfMemoryError);
  EXPECT_EQ(t::value_of(*s.a, bystander), 4);
  EXPECT_EQ(s.rig.stats().failures, 1U);
  EXPECT_NO_THROW(s.a->flush()) << "it was told once already";
  t::put(*s.a, s.x, 2);
  EXPECT_EQ(t::value_of(*s.a, s.x), 2);
}

TEST(Stream, memory_of_a_refused_list_is_free_again) {
  Refusing s;
  auto dead = s.a->allocate(4_KiB);
  t::put(*s.a, dead, 1);
  dead.reset();
  EXPECT_EQ(s.rig.stats().memory.deferred, 4_KiB);
  *s.refuse = 1;
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  EXPECT_EQ(s.rig.stats().memory.deferred, 0_B);
  EXPECT_EQ(s.rig.stats().submissions_in_flight, 0U);
}

TEST(Stream, explicit_waits_of_a_refused_list_pass_to_the_next_one) {
  Refusing s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  t::put(*s.a, s.x, 1);
  *s.refuse = 1;
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  t::put(*s.a, s.x, 2);
  const hal::Point point = s.a->flush();
  EXPECT_TRUE(stays_pending(s.rig, point));
  gate.open();
  EXPECT_EQ(t::value_of(*s.a, s.x), 2);
}

TEST(Stream, all_explicit_waits_of_refused_lists_pass_on_with_their_kinds) {
  Refusing s;
  Gate data(*s.rig.context);
  Gate order(*s.rig.context);
  s.a->wait_for(data.point(), hal::WaitKind::data);
  t::put(*s.a, s.x, 1);
  *s.refuse = 1;
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  // Refused again, with one wait more.
  s.a->wait_for(order.point(), hal::WaitKind::order);
  t::put(*s.a, s.x, 2);
  *s.refuse = 1;
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  t::put(*s.a, s.x, 3);
  const hal::Point point = s.a->flush();
  const Failure cause(ErrorCode::execution, "the other side failed");
  data.fail(cause);
  EXPECT_TRUE(stays_pending(s.rig, point)) << "the second wait is not met";
  order.open();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_EQ(point.failure(), cause) << "the first is a data wait still";
}

TEST(Stream, explicit_waits_of_a_refused_replay_pass_to_the_next_list) {
  Refusing s;
  ProgramRecorder recorder(s.rig.context, "p");
  recorder.fill(hal::Binding::of_slot(0, {{}, 64_B}, hal::Access::write), std::byte{1});
  const auto program = recorder.seal();
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  *s.refuse = 1;
  EXPECT_THROW(s.a->replay(program, std::array{t::write_of(s.x)}), OutOfMemoryError);
  t::put(*s.a, s.x, 2);
  const hal::Point point = s.a->flush();
  EXPECT_TRUE(stays_pending(s.rig, point));
  gate.open();
  EXPECT_EQ(t::value_of(*s.a, s.x), 2);
}

TEST(Stream, what_a_refused_list_waited_for_by_its_data_is_asked_for_again) {
  Refusing s;
  Gate gate(*s.rig.context);
  s.b->wait_for(gate.point());
  t::put(*s.b, s.y, 5);
  s.b->flush();
  t::run_add(s.rig, *s.a, s.y, s.x, 1);  // on another queue: waits for y
  *s.refuse = 1;
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  t::run_add(s.rig, *s.a, s.y, s.x, 2);
  const hal::Point point = s.a->flush();
  EXPECT_TRUE(stays_pending(s.rig, point)) << "y is not written yet";
  gate.open();
  EXPECT_EQ(t::value_of(*s.a, s.x), 7);
}

TEST(Stream, a_refused_list_that_waited_for_the_host_is_not_counted_as_waiting) {
  Refusing s({.memory_limit = 4_MiB, .reaper = false});
  {
    Gate gate(*s.rig.context);
    s.a->wait_for(gate.point());
    t::put(*s.a, s.x, 1);
    *s.refuse = 1;
    EXPECT_THROW(s.a->flush(), OutOfMemoryError);
    gate.open();
    t::put(*s.a, s.x, 2);
    s.a->synchronize(t::patient());
  }
  // Nothing waits for the host any more, so memory of a list in flight may be given on at once.
  Slow slow(*s.rig.context, std::byte{1});
  auto dead = s.a->allocate(3_MiB, "dead");
  t::run_slow(slow, *s.a, dead);
  s.a->flush();
  dead.reset();
  const uint64_t waits = s.rig.stats().waits_for(WaitReason::out_of_memory).count;
  Ref<hal::Allocation> next;
  const bool blocked = t::blocks([&] { next = s.b->allocate(3_MiB, "next"); });
  EXPECT_FALSE(blocked);
  EXPECT_EQ(s.rig.stats().waits_for(WaitReason::out_of_memory).count, waits);
}

TEST(Stream, a_list_refused_for_anothers_sake_tells_both) {
  Refusing s;
  t::put(*s.a, s.x, 1);
  *s.refuse = 1;
  EXPECT_THROW(t::run_add(s.rig, *s.b, s.x, s.y, 1), OutOfMemoryError);
  EXPECT_THROW(s.a->flush(), OutOfMemoryError);
  EXPECT_NO_THROW(s.a->flush());
  t::put(*s.b, s.y, 8);
  EXPECT_EQ(t::value_of(*s.b, s.y), 8);
}

TEST(Stream, a_refused_readback_says_so_and_can_be_repeated) {
  Refusing s;
  t::put(*s.a, s.x, 1);
  s.a->synchronize();
  t::put(*s.a, s.x, 2);
  *s.refuse = 1;
  EXPECT_THROW(t::bytes_of(*s.b, s.x), OutOfMemoryError);
  t::put(*s.b, s.x, 3);
  EXPECT_EQ(t::value_of(*s.b, s.x), 3);
}

TEST(Stream, synchronize_of_the_context_covers_all_streams_and_raises_the_first_failure) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(64_B);
  const auto y = b->allocate(64_B);
  t::run_explode(rig, *a, x);
  t::put(*b, y, 2);
  EXPECT_THROW(rig.context->synchronize(), ExecutionError);
  EXPECT_EQ(rig.stats().submissions_in_flight, 0U);
  EXPECT_EQ(rig.stats().retired, 2U);
  EXPECT_EQ(t::value_of(*b, y), 2);
}

}  // namespace
}  // namespace holdfast::runtime
