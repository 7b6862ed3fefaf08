#include <array>

#include "holdfast/hal/cts/cts.h"

// Sealed lists that run many times.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

constexpr size_t kProgramElements = 256;
constexpr Bytes kBytes{kProgramElements * 4};
constexpr ByteRange kAll{{}, kBytes};

}  // namespace

// The programs that several tests run.
class ProgramMaker {
 public:
  ProgramMaker(Device& device, Ref<Pipeline> affine)
      : device_(device), affine_(std::move(affine)) {}

  // Slot 0, in place: affine with the first, then with the second eight bytes of the parameters.
  Ref<Program> two_steps() const {
    CommandList steps(device_.info(), "two steps");
    const std::vector slot{Binding::of_slot(0, kAll, Access::read_write)};
    steps.dispatch(affine_, slot, Parameters::of_replay(range(0, 8)), groups_for(kProgramElements));
    steps.barrier();
    steps.dispatch(affine_, slot, Parameters::of_replay(range(8, 8)), groups_for(kProgramElements));
    return device_.create_program(steps).or_raise();
  }

  // Copies slot 0 to slot 1.
  Ref<Program> copy() const {
    CommandList steps(device_.info(), "copy program");
    steps.copy(Binding::of_slot(0, kAll, Access::read), Binding::of_slot(1, kAll, Access::write));
    return device_.create_program(steps).or_raise();
  }

 private:
  Device& device_;
  Ref<Pipeline> affine_;
};

TEST_P(Cts, a_program_runs_once_for_every_replay) {
  const auto data = uploaded(Words(kProgramElements, 1), "data");
  auto steps = list("steps");
  affine(steps, data, 3, 1);
  steps.barrier();
  affine(steps, data, 1, 5);
  const auto ticket = steps.ticket();
  const auto program = device().create_program(steps).or_raise();
  EXPECT_EQ(ticket->state(), TicketState::abandoned);
  EXPECT_FALSE(ticket->failure());
  EXPECT_TRUE(program->slots().empty());
  EXPECT_EQ(program->parameter_bytes(), Bytes{});
  EXPECT_EQ(read(data), Words(kProgramElements, 1)) << "sealing runs nothing";

  uint32_t expected = 1;
  for (int i = 0; i < 20; ++i) {
    auto again = replay(program, {});
    ASSERT_TRUE(reached(submit(queue(static_cast<size_t>(i) % device().queues().size()), again)));
    expected = expected * 3 + 1 + 5;
  }
  EXPECT_EQ(read(data), Words(kProgramElements, expected));
}

TEST_P(Cts, replays_in_flight_together_keep_their_bindings_and_parameters) {
  constexpr uint32_t kReplays = 32;
  const auto program = ProgramMaker(device(), pipeline("affine")).two_steps();
  ASSERT_EQ(program->slots().size(), 1U);
  EXPECT_EQ(program->slots()[0].bytes, kBytes);
  EXPECT_EQ(program->slots()[0].access, Access::read_write);
  EXPECT_TRUE(program->slots()[0].used);
  EXPECT_EQ(program->parameter_bytes(), Bytes{16});

  const Gate closed = gate();
  std::vector<Ref<Allocation>> data;
  std::vector<Point> points;
  for (uint32_t i = 0; i < kReplays; ++i)
    data.push_back(uploaded(Words(kProgramElements, i), "data"));
  for (uint32_t i = 0; i < kReplays; ++i) {
    std::array<AffineParameters, 2> parameters{AffineParameters{i + 2, i},
                                               AffineParameters{5, 2 * i}};
    auto one = replay(program, {Binding::of(data[i], Access::read_write)}, bytes_of(parameters));
    parameters = {};
    points.push_back(submit(queue(i % device().queues().size()), one, {closed.data()}));
  }
  for (const Point& point : points) EXPECT_TRUE(pending(point));
  closed.open();
  for (const Point& point : points) EXPECT_TRUE(reached(point));
  for (uint32_t i = 0; i < kReplays; ++i) {
    EXPECT_EQ(read(data[i]), Words(kProgramElements, (i * (i + 2) + i) * 5 + 2 * i))
        << "replay " << i;
  }
}

TEST_P(Cts, replays_of_one_queue_run_in_order) {
  const auto program = ProgramMaker(device(), pipeline("affine")).two_steps();
  const auto data = uploaded(Words(kProgramElements, 1), "data");
  uint32_t expected = 1;
  Point last;
  for (uint32_t i = 0; i < 50; ++i) {
    const std::array<AffineParameters, 2> parameters{AffineParameters{2 * i + 3, i},
                                                     AffineParameters{3, i}};
    auto one = replay(program, {Binding::of(data, Access::read_write)}, bytes_of(parameters));
    last = submit(queue(), one);
    expected = (expected * (2 * i + 3) + i) * 3 + i;
  }
  EXPECT_TRUE(reached(last));
  EXPECT_EQ(read(data), Words(kProgramElements, expected));
}

TEST_P(Cts, fixed_bindings_and_slots_mix_in_one_program) {
  const auto constant = uploaded(counting(kProgramElements), "constant");
  const auto scratch = words(kProgramElements, "scratch");
  auto steps = list("steps");
  mix(steps, constant, scratch, 3);
  steps.barrier();
  steps.copy(Binding::of(scratch, Access::read), Binding::of_slot(0, kAll, Access::write));
  steps.fill(Binding::of_slot(1, range(5, 3), Access::write), std::byte{0xab});
  const auto program = device().create_program(steps).or_raise();
  ASSERT_EQ(program->slots().size(), 2U);
  EXPECT_EQ(program->slots()[1].bytes, Bytes{8});

  const auto out = words(kProgramElements, "out");
  const auto marks = uploaded(ByteVector(10), "marks");
  auto one = replay(program, {Binding::of(out, Access::write), Binding::of(marks, Access::write)});
  EXPECT_TRUE(reached(submit(queue(), one)));
  EXPECT_EQ(read(out), mixed(counting(kProgramElements), 3));
  ByteVector expected(10);
  std::fill_n(expected.begin() + 5, 3, std::byte{0xab});
  EXPECT_EQ(read_bytes(marks), expected);
}

TEST_P(Cts, a_slots_range_counts_from_the_start_of_what_is_bound) {
  const auto program = ProgramMaker(device(), pipeline("affine")).copy();
  const auto from = uploaded(counting(3 * kProgramElements), "from");
  const auto to = uploaded(Words(3 * kProgramElements), "to");
  auto one = replay(program, {Binding::of(from, {kBytes, kBytes}, Access::read),
                              Binding::of(to, {kBytes + kBytes, kBytes}, Access::write)});
  EXPECT_TRUE(reached(submit(queue(), one)));
  Words expected(2 * kProgramElements);
  const Words copied = counting(kProgramElements, kProgramElements);
  expected.insert(expected.end(), copied.begin(), copied.end());
  EXPECT_EQ(read(to), expected);
}

TEST_P(Cts, a_replay_in_flight_keeps_program_and_bindings_alive) {
  const Gate closed = gate();
  Imported data = imported(Words(kProgramElements, 7));
  auto program = ProgramMaker(device(), make_pipeline("affine")).two_steps();
  const std::array<AffineParameters, 2> parameters{AffineParameters{2, 0}, AffineParameters{1, 1}};
  const Bytes size = data.allocation->size();
  ASSERT_GE(size, kBytes);
  auto one = replay(program, {Binding::of(data.allocation, kAll, Access::read_write)},
                    bytes_of(parameters));
  program.reset();
  data.allocation.reset();
  const Point point = submit(queue(), one, {closed.data()});
  EXPECT_EQ(data.deletions->value(), 0);
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(Words(data.words, data.words + kProgramElements), Words(kProgramElements, 15));
  EXPECT_EQ(data.deletions->value(), 0) << "not retired yet";
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_program_keeps_its_fixed_bindings_alive_between_replays) {
  Imported data = imported(Words(kProgramElements, 1));
  auto steps = list("steps");
  increment(steps, data.allocation);
  auto program = device().create_program(steps).or_raise();
  data.allocation.reset();
  for (uint32_t i = 0; i < 3; ++i) {
    auto one = replay(program, {});
    ASSERT_TRUE(reached(submit(queue(), one)));
    queue()->retire();
    EXPECT_EQ(data.words[kProgramElements - 1], i + 2);
    EXPECT_EQ(data.deletions->value(), 0);
  }
  program.reset();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_slot_that_is_missing_is_refused_by_name) {
  const auto program = ProgramMaker(device(), pipeline("affine")).copy();
  const auto data = uploaded(Words(kProgramElements), "data");
  EXPECT_THAT(message_of_refusal([&] { replay(program, {}); }), HasSubstr("copy program"));
  EXPECT_THROW(replay(program, {Binding::of(data, Access::read)}), UsageError);
  EXPECT_THROW(replay(program, {Binding::of(data, Access::read), Binding{}}), UsageError);
  EXPECT_THROW(replay(program, {Binding::of(Ref<Allocation>(), Access::read),
                                Binding::of(data, Access::write)}),
               UsageError);
  EXPECT_THROW(replay(Ref<Program>(), {}), UsageError);
}

TEST_P(Cts, a_slot_bound_too_short_or_out_of_range_is_refused_by_name) {
  const auto program = ProgramMaker(device(), pipeline("affine")).copy();
  const auto from = uploaded(Words(kProgramElements), "source");
  const auto to = uploaded(Words(kProgramElements), "target");
  const Binding good = Binding::of(from, Access::read);
  const auto refusal = message_of_refusal([&] {
    replay(program, {good, Binding::of(to, {{}, kBytes - 1_B}, Access::write)});
  });
  EXPECT_THAT(refusal, HasSubstr("target"));
  EXPECT_THROW(replay(program, {good, Binding::of(to, {4_B, kBytes}, Access::write)}), UsageError);
  EXPECT_THROW(replay(program, {good, Binding::of(to, {kMaxBytes - 3_B, kBytes}, Access::write)}),
               UsageError);
}

TEST_P(Cts, a_slot_given_less_access_than_the_program_needs_is_refused) {
  const auto data = uploaded(Words(kProgramElements), "data");
  const auto other = uploaded(Words(kProgramElements), "other");
  const auto copy = ProgramMaker(device(), pipeline("affine")).copy();
  EXPECT_THROW(replay(copy, {Binding::of(data, Access::read), Binding::of(other, Access::read)}),
               UsageError);
  const auto in_place = ProgramMaker(device(), pipeline("affine")).two_steps();
  const ByteVector parameters(16);
  EXPECT_THROW(replay(in_place, {Binding::of(data, Access::read)}, parameters), UsageError);
  EXPECT_THROW(replay(in_place, {Binding::of(data, Access::write)}, parameters), UsageError);
  EXPECT_NO_THROW(replay(
      copy, {Binding::of(data, Access::read_write), Binding::of(other, Access::read_write)}));
}

TEST_P(Cts, slots_that_alias_a_written_range_are_refused) {
  const auto program = ProgramMaker(device(), pipeline("affine")).copy();
  const auto data = uploaded(counting(2 * kProgramElements), "data");
  const Binding low = Binding::of(data, {{}, kBytes}, Access::read);
  const std::vector overlapping{low, Binding::of(data, {kBytes - 4_B, kBytes}, Access::write)};
  EXPECT_THROW(replay(program, overlapping), UsageError);

  auto one = replay(program, {low, Binding::of(data, {kBytes, kBytes}, Access::write)});
  EXPECT_TRUE(reached(submit(queue(), one))) << "disjoint ranges of one allocation are fine";
  Words expected = counting(kProgramElements);
  const Words copied = counting(kProgramElements);
  expected.insert(expected.end(), copied.begin(), copied.end());
  EXPECT_EQ(read(data), expected);
}

TEST_P(Cts, a_slot_that_aliases_a_fixed_binding_is_refused_where_one_is_written) {
  const auto fixed = uploaded(counting(kProgramElements), "fixed");
  auto steps = list("writes its slot");
  steps.copy(Binding::of(fixed, Access::read), Binding::of_slot(0, kAll, Access::write));
  const auto writer = device().create_program(steps).or_raise();
  EXPECT_THROW(replay(writer, {Binding::of(fixed, Access::write)}), UsageError);

  auto more = list("reads its slot");
  more.copy(Binding::of_slot(0, kAll, Access::read), Binding::of(fixed, Access::write));
  const auto reader = device().create_program(more).or_raise();
  EXPECT_THROW(replay(reader, {Binding::of(fixed, Access::read)}), UsageError);
}

TEST_P(Cts, slots_that_are_only_read_may_alias) {
  const auto a = words(kProgramElements, "a");
  const auto b = words(kProgramElements, "b");
  const auto data = uploaded(counting(kProgramElements), "data");
  auto steps = list("two readers");
  steps.copy(Binding::of_slot(0, kAll, Access::read), Binding::of(a, Access::write));
  steps.copy(Binding::of_slot(1, kAll, Access::read), Binding::of(b, Access::write));
  const auto program = device().create_program(steps).or_raise();
  auto one = replay(program, {Binding::of(data, Access::read), Binding::of(data, Access::read)});
  EXPECT_TRUE(reached(submit(queue(), one)));
  EXPECT_EQ(read(a), counting(kProgramElements));
  EXPECT_EQ(read(b), counting(kProgramElements));
}

TEST_P(Cts, replay_parameters_that_are_too_short_are_refused_by_name) {
  const auto program = ProgramMaker(device(), pipeline("affine")).two_steps();
  const auto data = uploaded(Words(kProgramElements), "data");
  const std::vector slots{Binding::of(data, Access::read_write)};
  EXPECT_THAT(message_of_refusal([&] { replay(program, slots); }), HasSubstr("two steps"));
  EXPECT_THROW(replay(program, slots, ByteVector(15)), UsageError);
}

TEST_P(Cts, a_list_with_slots_is_run_only_as_a_program) {
  const auto data = uploaded(Words(kProgramElements, 3), "data");
  auto open = list("open slots");
  open.fill(Binding::of_slot(0, kAll, Access::write), std::byte{1});
  const auto refused = queue()->submit(open);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(), HasSubstr("open slots"));
  auto program = device().create_program(open);
  ASSERT_TRUE(program.ok()) << "the refused list is still the caller's";
  auto one = replay(program.value(), {Binding::of(data, Access::write)});
  EXPECT_TRUE(reached(submit(queue(), one)));
  EXPECT_EQ(read(data), Words(kProgramElements, 0x01010101U));
}

TEST_P(Cts, a_program_of_another_device_is_refused) {
  const Ref<Device> other = open_another();
  const auto program = ProgramMaker(device(), pipeline("affine")).copy();
  const auto a = uploaded(Words(kProgramElements), "a");
  const auto b = uploaded(Words(kProgramElements), "b");
  auto one = replay(program, {Binding::of(a, Access::read), Binding::of(b, Access::write)});
  EXPECT_FALSE(other->queues()[0]->submit(one).ok());
  EXPECT_TRUE(reached(submit(queue(), one)));

  CommandList foreign(other->info(), "foreign");
  EXPECT_FALSE(device().create_program(foreign).ok());
  EXPECT_TRUE(reached(submit(other->queues()[0], foreign))) << "consumed on success only";
}

TEST_P(Cts, slots_and_replay_parameters_whose_ranges_overflow_are_refused) {
  const auto data = uploaded(Words(kProgramElements), "data");
  const ByteRange wrapping{kMaxBytes - 3_B, 8_B};
  // Wherever it is refused, nobody may get as far as a list that could be submitted.
  EXPECT_THAT(message_of_refusal([&] {
                auto steps = list("wild slot");
                steps.fill(Binding::of_slot(0, wrapping, Access::write), std::byte{1});
                const auto program = device().create_program(steps).or_raise();
                replay(program, {Binding::of(data, Access::write)});
              }),
              HasSubstr("wild slot"));
  EXPECT_THAT(message_of_refusal([&] {
                auto steps = list("wild parameters");
                dispatch(steps, "affine", {Binding::of(data, Access::read_write)},
                         Parameters::of_replay(wrapping), groups_for(kProgramElements));
                const auto program = device().create_program(steps).or_raise();
                replay(program, {}, ByteVector(64));
              }),
              HasSubstr("wild parameters"));
}

}  // namespace holdfast::hal::cts
