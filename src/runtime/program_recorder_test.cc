#include "holdfast/runtime/program_recorder.h"

#include <algorithm>
#include <atomic>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

constexpr ByteRange kWhole{{}, 64_B};

// slot 1 = 2 * (slot 0 + bias) + parameter, where bias is bound for good.
struct Recorded {
  explicit Recorded(hal::CpuOptions options = {.queues = 2, .helpers = 0})
      : rig(std::move(options)) {
    auto bias = a->allocate(64_B, "bias");
    t::put(*a, bias, 3);
    ProgramRecorder recorder(rig.context, "step");
    const auto sum =
        rig.context->create_pipeline({"sum",
                                      hal::HostFunction([](const hal::HostGroup& g) {
                                        for (size_t i = 0; i < g.bindings[2].size(); ++i) {
                                          g.binding<uint8_t>(2)[i] = static_cast<uint8_t>(
                                              g.binding<uint8_t>(0)[i] + g.binding<uint8_t>(1)[i]);
                                        }
                                      }),
                                      3,
                                      {}});
    recorder.dispatch(sum,
                      std::array{Binding::of_slot(0, kWhole, Access::read), t::read_of(bias),
                                 Binding::of_slot(1, kWhole, Access::write)},
                      {}, {1, 1, 1});
    recorder.dispatch(rig.affine(), std::array{Binding::of_slot(1, kWhole, Access::read_write)},
                      hal::Parameters::of_replay({{}, 1_B}), {1, 1, 1});
    program = recorder.seal();
  }
  hal::Point replay(Stream& stream, const Ref<hal::Allocation>& in, const Ref<hal::Allocation>& out,
                    uint8_t parameter) const {
    return stream.replay(program, std::array{t::read_of(in), t::in_place(out)},
                         std::as_bytes(std::span(&parameter, 1)));
  }

  Rig rig;
  Ref<Stream> a = rig.stream("a", 0);
  Ref<Stream> b = rig.stream("b", rig.device->info().queues - 1);
  Ref<hal::Program> program;
};

TEST(ProgramRecorder, its_commands_run_in_recorded_order_with_the_slots_of_the_replay) {
  Recorded s;
  const auto in = s.a->allocate(64_B);
  const auto out = s.a->allocate(64_B);
  t::put(*s.a, in, 10);
  s.replay(*s.a, in, out, 5);
  EXPECT_EQ(t::value_of(*s.a, out), 31);
}

TEST(ProgramRecorder, several_replays_in_flight_have_their_own_slots_and_parameters) {
  Recorded s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  std::vector<Ref<hal::Allocation>> outs;
  for (uint8_t i = 0; i < 20; ++i) {
    Stream& stream = i % 2 == 0 ? *s.a : *s.b;
    const auto in = stream.allocate(64_B);
    outs.push_back(stream.allocate(64_B));
    t::put(stream, in, i);
    s.replay(stream, in, outs.back(), i);
  }
  gate.open();
  for (uint8_t i = 0; i < 20; ++i) EXPECT_EQ(t::value_of(*s.b, outs[i]), 2 * (i + 3) + i);
}

TEST(ProgramRecorder, a_replay_comes_after_what_was_recorded_and_before_what_follows) {
  Recorded s;
  Gate gate(*s.rig.context);
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  const auto z = s.b->allocate(64_B);
  s.a->wait_for(gate.point());
  t::put(*s.a, x, 1);
  const hal::Point point = s.replay(*s.a, x, y, 0);
  t::put(*s.a, x, 77);
  t::run_add(s.rig, *s.b, y, z, 1);
  const hal::Point later = s.b->flush();
  EXPECT_TRUE(point.pending());
  EXPECT_TRUE(later.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*s.b, z), 9);
  EXPECT_EQ(t::value_of(*s.a, x), 77);
}

TEST(ProgramRecorder, a_replay_waits_for_other_streams_and_submits_their_open_lists) {
  Recorded s;
  Gate gate(*s.rig.context);
  const auto x = s.b->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  s.b->wait_for(gate.point());
  t::put(*s.b, x, 1);
  const hal::Point point = s.replay(*s.a, x, y, 0);
  EXPECT_TRUE(point.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, streams_on_one_queue_may_replay_on_each_others_open_lists) {
  Recorded s({.queues = 1, .helpers = 0});
  const auto c = s.rig.stream("c", 0);
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  t::put(*c, x, 1);
  s.replay(*s.a, x, y, 0);
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, fixed_bindings_outlive_their_users_between_replays) {
  Recorded s;
  const auto in = s.a->allocate(64_B);
  t::put(*s.a, in, 1);
  for (int i = 0; i < 3; ++i) {
    const auto out = s.a->allocate(64_B);
    s.replay(*s.a, in, out, 0);
    EXPECT_EQ(t::value_of(*s.a, out), 8);
    s.rig.context->retire();
    // Would take the range, were it free.
    std::vector<Ref<hal::Allocation>> greedy;
    for (int k = 0; k < 50; ++k) {
      greedy.push_back(s.a->allocate(64_B));
      t::put(*s.a, greedy.back(), 200);
    }
  }
}

TEST(ProgramRecorder, dropping_the_program_in_flight_is_safe_and_frees_what_it_used) {
  Recorded s;
  Gate gate(*s.rig.context);
  const auto in = s.a->allocate(64_B);
  const auto out = s.a->allocate(64_B);
  t::put(*s.a, in, 1);
  s.a->wait_for(gate.point());
  s.replay(*s.a, in, out, 0);
  const uint64_t live = s.rig.stats().memory.live_objects;
  s.program.reset();
  std::vector<Ref<hal::Allocation>> greedy;
  for (int k = 0; k < 50; ++k) {
    greedy.push_back(s.b->allocate(64_B));
    t::put(*s.b, greedy.back(), 200);
  }
  ASSERT_TRUE(t::until_done(s.b->flush()));
  gate.open();
  EXPECT_EQ(t::value_of(*s.a, out), 8);
  greedy.clear();
  s.rig.context->synchronize();
  EXPECT_EQ(s.rig.stats().memory.live_objects, live - 1) << "the bias is gone with the program";
}

TEST(ProgramRecorder, slots_that_alias_what_is_written_are_refused_and_nothing_changes) {
  Recorded s;
  const auto x = s.a->allocate(64_B, "twice");
  t::put(*s.a, x, 1);
  EXPECT_THAT([&] { s.replay(*s.a, x, x, 0); }, ThrowsMessage<UsageError>(HasSubstr("twice")));
  const auto y = s.a->allocate(64_B, "y");
  const uint8_t zero = 0;
  const auto parameter = std::as_bytes(std::span(&zero, 1));
  EXPECT_THROW(s.a->replay(s.program, std::array{t::read_of(x)}, parameter), UsageError);
  EXPECT_THROW(s.a->replay(s.program, std::array{t::read_of(x), t::in_place(y)}), UsageError);
  EXPECT_THROW(s.a->replay(s.program, std::array{t::read_of(x), t::read_of(y)}, parameter),
               UsageError);
  EXPECT_THROW(s.a->replay(s.program, std::array{t::part(x, 0, 63, Access::read), t::in_place(y)},
                           parameter),
               UsageError);
  EXPECT_EQ(s.rig.stats().submissions, 0U);
  EXPECT_EQ(t::value_of(*s.a, x), 1);
}

TEST(ProgramRecorder, programs_of_another_device_are_refused) {
  Recorded s;
  Rig other;
  const auto stream = other.stream();
  const auto x = stream->allocate(64_B);
  const auto y = stream->allocate(64_B);
  EXPECT_THROW(s.replay(*stream, x, y, 0), UsageError);
}

TEST(ProgramRecorder, barriers_stand_where_slots_conflict) {
  Rig rig;
  ProgramRecorder recorder(rig.context, "p");
  const auto slot = [](uint32_t n, Access access) { return Binding::of_slot(n, kWhole, access); };
  recorder.fill(slot(0, Access::write), std::byte{1});
  recorder.fill(slot(1, Access::write), std::byte{2});
  recorder.copy(slot(0, Access::read), slot(2, Access::write));
  recorder.copy(slot(1, Access::read), slot(3, Access::write));
  const auto program = recorder.seal();
  EXPECT_EQ(program->list().barrier_count(), 1U);
  EXPECT_EQ(program->list().command_count(), 4U);
}

TEST(ProgramRecorder, failures_pass_through_replays) {
  Recorded s;
  ProgramRecorder recorder(s.rig.context, "bad");
  recorder.dispatch(s.rig.explode(), std::array{Binding::of_slot(0, kWhole, Access::write)}, {},
                    {1, 1, 1});
  const auto bad = recorder.seal();
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  const hal::Point failed = s.a->replay(bad, std::array{t::write_of(x)});
  ASSERT_TRUE(t::until_done(failed));
  EXPECT_THAT([&] { s.rig.context->wait(failed); },
              ThrowsMessage<ExecutionError>(HasSubstr("explode")));
  EXPECT_THROW(s.replay(*s.b, x, y, 0), ExecutionError) << "it reads poison";
  // The slot is overwritten in full: no poison is read.
  EXPECT_NO_THROW(s.a->replay(bad, std::array{t::write_of(x)}));
  t::put(*s.a, x, 1);
  s.replay(*s.b, x, y, 0);
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, a_replay_that_fails_leaves_the_other_slots_of_its_program_good) {
  Recorded s;
  ProgramRecorder recorder(s.rig.context, "half bad");
  recorder.dispatch(s.rig.explode(), std::array{Binding::of_slot(0, kWhole, Access::write)}, {},
                    {1, 1, 1});
  recorder.fill(Binding::of_slot(1, kWhole, Access::write), std::byte{6});
  const auto program = recorder.seal();
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  const hal::Point point = s.a->replay(program, std::array{t::write_of(x), t::write_of(y)});
  EXPECT_EQ(t::value_of(*s.b, y), 6);
  EXPECT_THROW(t::bytes_of(*s.b, x), ExecutionError);
  EXPECT_TRUE(point.failure());
}

// The slot counts as one range, of which the program leaves a part alone.
TEST(ProgramRecorder, a_replay_heals_none_of_the_bad_bytes_that_it_leaves_alone) {
  Recorded s;
  Gate gate(*s.rig.context);
  ProgramRecorder recorder(s.rig.context, "ends");
  recorder.fill(Binding::of_slot(0, {{}, 16_B}, Access::write), std::byte{6});
  recorder.fill(Binding::of_slot(0, {48_B, 16_B}, Access::write), std::byte{6});
  const auto program = recorder.seal();
  const auto x = s.a->allocate(64_B);
  s.a->wait_for(gate.point(), hal::WaitKind::order);
  s.a->dispatch(s.rig.explode(), std::array{t::part(x, 0, 32, Access::write)}, {}, {1, 1, 1});
  s.a->fill(t::part(x, 32, 32, Access::write), std::byte{1});
  s.a->flush();
  s.b->replay(program, std::array{t::in_place(x)});
  gate.open();
  std::vector<std::byte> part(16);
  const std::array expected{6, -1, 1, 6};
  for (uint64_t i = 0; i < 4; ++i) {
    const auto look = [&] { s.a->readback(x, Bytes{16 * i}, part); };
    if (expected[i] < 0) {
      EXPECT_THROW(look(), ExecutionError);
    } else {
      look();
      EXPECT_EQ(std::to_integer<int>(part[0]), expected[i]) << i;
    }
  }
}

TEST(ProgramRecorder, a_map_of_a_slot_or_of_a_fixed_binding_is_named) {
  Recorded s;
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  t::put(*s.a, x, 1);
  {
    const Map map = s.a->map(y, kWhole, Access::write, {}, "my map");
    EXPECT_THAT([&] { s.replay(*s.a, x, y, 0); }, ThrowsMessage<UsageError>(HasSubstr("my map")));
  }
  s.replay(*s.a, x, y, 0);
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, a_refused_replay_is_told_once_and_poisons_its_outputs) {
  std::atomic<int> refuse{0};
  hal::CpuOptions options{.queues = 2, .helpers = 0};
  options.fail_submit = [&](const hal::Queue&) {
    return refuse-- > 0 ? Failure(ErrorCode::out_of_memory, "refused") : Failure();
  };
  Recorded s(options);
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  t::put(*s.a, x, 1);
  s.a->synchronize();
  refuse = 1;
  EXPECT_THROW(s.replay(*s.a, x, y, 0), OutOfMemoryError);
  EXPECT_THROW(t::bytes_of(*s.a, y), OutOfMemoryError);
  EXPECT_NO_THROW(s.a->flush()) << "it was told already";
  t::put(*s.a, y, 0);
  s.replay(*s.a, x, y, 0);
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, a_slot_that_is_overwritten_before_it_is_read_needs_no_good_content) {
  Recorded s;
  const auto x = s.a->allocate(64_B);
  const auto y = s.a->allocate(64_B);
  t::put(*s.a, x, 1);
  s.a->flush();
  t::run_explode(s.rig, *s.a, y);
  ASSERT_TRUE(t::until_done(s.a->flush()));
  s.rig.context->retire();
  ASSERT_TRUE(s.program->slots()[1].overwrites);
  EXPECT_NO_THROW(s.replay(*s.a, x, y, 0));
  EXPECT_EQ(t::value_of(*s.a, y), 8);
}

TEST(ProgramRecorder, a_failed_replay_does_not_spoil_the_programs_own_scratch_for_good) {
  Rig rig;
  const auto stream = rig.stream();
  const auto out = stream->allocate(64_B);
  const auto store = rig.context->create_pipeline(
      {"store", hal::HostFunction([](const hal::HostGroup& g) {
         if (g.parameter<uint8_t>() == 0) throw std::runtime_error("zero");
         std::ranges::fill(g.binding<uint8_t>(0), g.parameter<uint8_t>());
       }),
       1, 1_B});
  ProgramRecorder recorder(rig.context, "through scratch");
  {
    const auto scratch = stream->allocate(64_B, "scratch");
    recorder.dispatch(store, std::array{t::write_of(scratch)},
                      hal::Parameters::of_replay({{}, 1_B}), {1, 1, 1});
    recorder.copy(t::read_of(scratch), Binding::of_slot(0, kWhole, Access::write));
  }
  const auto program = recorder.seal();
  const auto replay = [&](uint8_t value) {
    return stream->replay(program, std::array{t::write_of(out)},
                          std::as_bytes(std::span(&value, 1)));
  };
  const hal::Point failed = replay(0);
  ASSERT_TRUE(t::until_done(failed));
  rig.context->retire();
  EXPECT_TRUE(failed.failure());
  // Nobody but the program can overwrite its scratch, and it does so before it reads it.
  EXPECT_NO_THROW(replay(7));
  EXPECT_EQ(t::value_of(*stream, out), 7);
}

}  // namespace
}  // namespace holdfast::runtime
