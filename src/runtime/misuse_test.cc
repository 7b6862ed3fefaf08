#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"

// What bad input gets: an exception that names the object and the limit, and a stream that stays
// usable.
namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

class Misuse : public ::testing::Test {
 protected:
  Misuse() { t::put(*stream, x, 1); }
  ~Misuse() override {
    EXPECT_EQ(rig.stats().commands, 1U) << "a refused call recorded something";
    t::run_affine(rig, *stream, t::in_place(x), 1);
    EXPECT_EQ(t::value_of(*stream, x), 3) << "the stream must stay usable";
  }

  // The device's limit is small, so that a test can exceed it.
  Rig rig{{.queues = 2, .helpers = 0, .max_groups = {64, 32, 16}}};
  Rig other;
  Ref<Stream> stream = rig.stream("mine");
  Ref<hal::Allocation> x = stream->allocate(64_B, "weights");
  Ref<hal::Allocation> foreign = other.context->allocate(64_B, "foreign");
  const uint8_t one = 1;
  hal::Parameters p = hal::Parameters::of(one);
};

TEST_F(Misuse, a_binding_out_of_range_names_the_allocation_and_its_size) {
  const auto names = ThrowsMessage<UsageError>(AllOf(HasSubstr("weights"), HasSubstr("64")));
  const auto dispatch = [&](uint64_t offset, uint64_t length) {
    return [this, offset, length] {
      stream->dispatch(rig.affine(), std::array{t::part(x, offset, length, Access::read)}, p, {});
    };
  };
  EXPECT_THAT(dispatch(1, 64), names);
  EXPECT_THAT(dispatch(65, 0), names);
  EXPECT_THAT(dispatch(8, kMaxBytes.value), names);
  EXPECT_THAT(dispatch(kMaxBytes.value, 2), names);
  EXPECT_THAT([&] { stream->fill(t::part(x, 60, 8, Access::write), {}); }, names);
  EXPECT_THAT(
      [&] { stream->copy(t::part(x, 60, 8, Access::read), t::part(x, 0, 8, Access::write)); },
      names);
}

TEST_F(Misuse, things_of_another_device_are_named) {
  EXPECT_THAT([&] { stream->fill(t::write_of(foreign), {}); },
              ThrowsMessage<UsageError>(HasSubstr("foreign")));
  EXPECT_THAT([&] { stream->dispatch(other.affine(), std::array{t::in_place(x)}, p, {}); },
              ThrowsMessage<UsageError>(HasSubstr("affine")));
  std::vector<std::byte> data(8);
  EXPECT_THAT([&] { stream->upload(foreign, {}, data); },
              ThrowsMessage<UsageError>(HasSubstr("foreign")));
  EXPECT_THAT([&] { stream->readback(foreign, {}, data); },
              ThrowsMessage<UsageError>(HasSubstr("foreign")));
  EXPECT_THAT(
      [&] {
        stream->map(foreign, {{}, 8_B}, Access::read);
      },
      ThrowsMessage<UsageError>(HasSubstr("foreign")));
}

TEST_F(Misuse, refs_that_were_moved_from_are_refused) {
  const Ref<hal::Allocation> none;
  std::vector<std::byte> data(8);
  EXPECT_THROW(stream->fill(t::write_of(none), {}), UsageError);
  EXPECT_THROW(stream->dispatch({}, std::array{t::in_place(x)}, p, {}), UsageError);
  EXPECT_THROW(stream->upload(none, {}, data), UsageError);
  EXPECT_THROW(stream->readback(none, {}, data), UsageError);
  EXPECT_THROW(stream->map(none, {{}, 8_B}, Access::read), UsageError);
  EXPECT_THROW(stream->replay({}, {}), UsageError);
  EXPECT_THROW(stream->native({}, {}), UsageError);
  EXPECT_THROW(Context::create({}), UsageError);
}

TEST_F(Misuse, a_grid_over_the_limit_says_the_limit) {
  for (const hal::Groups groups : {hal::Groups{65, 1, 1}, {1, 33, 1}, {1, 1, 17}}) {
    EXPECT_THAT([&] { stream->dispatch(rig.affine(), std::array{t::in_place(x)}, p, groups); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("affine"), HasSubstr("64x32x16"))));
  }
}

TEST_F(Misuse, parameters_over_the_limit_or_of_the_wrong_size_say_so) {
  const std::vector<std::byte> large(4097);
  EXPECT_THAT([&] { stream->dispatch(rig.affine(), std::array{t::in_place(x)}, {large}, {}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("4097"), HasSubstr("4096"))));
  EXPECT_THAT([&] { stream->dispatch(rig.affine(), std::array{t::in_place(x)}, {}, {}); },
              ThrowsMessage<UsageError>(HasSubstr("affine")));
  EXPECT_THROW(
      rig.context->create_pipeline({"k", hal::HostFunction([](const auto&) {}), 1, 4097_B}),
      UsageError);
}

TEST_F(Misuse, the_wrong_number_of_bindings_says_how_many) {
  EXPECT_THAT([&] { stream->dispatch(rig.add(), std::array{t::in_place(x)}, p, {}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("add"), HasSubstr("2 bindings"))));
  const std::vector<Binding> many(32, t::read_of(x));
  EXPECT_THAT([&] { stream->native([](const auto&) {}, many); },
              ThrowsMessage<UsageError>(HasSubstr("31")));
  EXPECT_THROW(rig.context->create_pipeline({"k", hal::HostFunction([](const auto&) {}), 32, {}}),
               UsageError);
}

TEST_F(Misuse, copies_between_different_lengths_or_overlapping_ranges_are_refused) {
  EXPECT_THAT(
      [&] { stream->copy(t::part(x, 0, 8, Access::read), t::part(x, 8, 9, Access::write)); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("8"), HasSubstr("9"))));
  EXPECT_THAT(
      [&] { stream->copy(t::part(x, 0, 8, Access::read), t::part(x, 7, 8, Access::write)); },
      ThrowsMessage<UsageError>(HasSubstr("weights")));
}

TEST_F(Misuse, slots_and_replay_parameters_belong_to_programs) {
  EXPECT_THROW(stream->fill(Binding::of_slot(0, {{}, 8_B}, Access::write), {}), UsageError);
  EXPECT_THROW(stream->dispatch(rig.affine(), std::array{t::in_place(x)},
                                hal::Parameters::of_replay({{}, 1_B}), {}),
               UsageError);
}

TEST_F(Misuse, host_access_out_of_range_names_the_allocation_and_its_size) {
  std::vector<std::byte> data(65);
  const auto names = ThrowsMessage<UsageError>(AllOf(HasSubstr("weights"), HasSubstr("64")));
  EXPECT_THAT([&] { stream->upload(x, {}, data); }, names);
  EXPECT_THAT([&] { stream->readback(x, {}, data); }, names);
  EXPECT_THAT([&] { stream->upload(x, kMaxBytes, data); }, names);
  EXPECT_THAT([&] { stream->map(x, {1_B, 64_B}, Access::read); }, names);
  EXPECT_THAT([&] { stream->map(x, {kMaxBytes, 2_B}, Access::read); }, names);
}

TEST_F(Misuse, a_queue_that_does_not_exist_is_refused_with_the_number_there_is) {
  EXPECT_THAT([&] { rig.stream("lost", 2); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("lost"), HasSubstr("2"))));
}

TEST_F(Misuse, another_devices_pending_point_cannot_be_waited_for) {
  const auto theirs = other.stream();
  Gate gate(*other.context);
  theirs->wait_for(gate.point());
  t::put(*theirs, foreign, 1);
  const hal::Point point = theirs->flush();
  EXPECT_THAT([&] { stream->wait_for(point); },
              ThrowsMessage<UsageError>(HasSubstr("another device")));
  gate.open();
  EXPECT_NO_THROW(rig.context->wait(point)) << "a host wait may be for any device";
  EXPECT_NO_THROW(stream->wait_for(point)) << "it is reached: nothing to wait for";
}

TEST_F(Misuse, points_of_a_dead_device_raise_their_failure) {
  hal::Point point;
  {
    Rig dying({.queues = 1, .helpers = 0}, {.shutdown_bound = {}, .reaper = false});
    const auto theirs = dying.stream();
    const auto gate = dying.context->new_host_timeline("never");
    theirs->wait_for({gate, {1}});
    const auto y = theirs->allocate(64_B);
    t::put(*theirs, y, 1);
    point = theirs->flush();
  }
  EXPECT_FALSE(point.pending());
  EXPECT_THROW(rig.context->wait(point, t::patient()), ClosedError);
  EXPECT_THROW(stream->wait_for(point), ClosedError);
  EXPECT_NO_THROW(stream->wait_for(point, hal::WaitKind::order));
}

TEST_F(Misuse, a_kernel_that_waits_for_its_own_device_is_told_so) {
  Rig own;
  const auto inner = own.stream("inner", 1);
  const auto y = inner->allocate(64_B);
  Gate gate(*own.context);
  inner->wait_for(gate.point());
  t::put(*inner, y, 1);
  const hal::Point pending = inner->flush();
  const auto outer = own.stream("outer", 0);
  outer->native([&](const hal::NativeCall&) { own.context->wait(pending); }, {});
  EXPECT_THAT([&] { outer->synchronize(t::patient()); },
              ThrowsMessage<ExecutionError>(HasSubstr("may not wait")));
}

TEST_F(Misuse, a_native_callback_that_submits_to_its_own_queue_fails_its_list) {
  Rig own;
  const auto inner = own.stream("inner", 0);
  const auto outer = own.stream("outer", 0);
  outer->native(
      [&](const hal::NativeCall&) {
        inner->native([](const hal::NativeCall&) {}, {});
        inner->flush();
      },
      {});
  EXPECT_THROW(outer->synchronize(t::patient()), ExecutionError);
}

TEST_F(Misuse, a_program_recorder_refuses_what_a_stream_refuses) {
  ProgramRecorder recorder(rig.context, "p");
  EXPECT_THROW(recorder.fill(t::part(x, 60, 8, Access::write), {}), UsageError);
  EXPECT_THROW(recorder.fill(t::write_of(foreign), {}), UsageError);
  EXPECT_THROW(recorder.dispatch({}, {}, {}, {}), UsageError);
  EXPECT_THROW(recorder.copy(t::part(x, 0, 8, Access::read), t::part(x, 7, 8, Access::write)),
               UsageError);
  recorder.fill(t::part(x, 0, 8, Access::write), std::byte{1});
  EXPECT_TRUE(recorder.seal());
  EXPECT_THROW(recorder.fill(t::write_of(x), {}), UsageError);
  EXPECT_THROW(recorder.seal(), UsageError);
}

}  // namespace
}  // namespace holdfast::runtime
