#include <stdexcept>

#include "holdfast/hal/cts/cts.h"

// Callbacks that run in their turn, with the memory they declared, on devices whose bindings are
// host memory.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

std::span<uint32_t> words_of(const NativeCall& call, size_t binding) {
  const auto bytes = call.host_bindings[binding];
  return {reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / 4};
}

}  // namespace

TEST_P(Cts, a_native_callback_gets_what_it_declared) {
  const auto data = uploaded(counting(256), "data");
  const auto out = uploaded(Words(4), "out");
  auto work = list();
  size_t bindings = 0;
  Words seen;
  const std::vector declared{Binding::of(data, range(256, 16), Access::read),
                             Binding::of(out, range(4, 8), Access::write)};
  work.native(
      [&](const NativeCall& call) {
        bindings = call.host_bindings.size();
        const auto in = words_of(call, 0);
        seen.assign(in.begin(), in.end());
        std::ranges::fill(words_of(call, 1), 9U);
      },
      declared, "callback");
  EXPECT_EQ(work.command_count(), 1U);
  EXPECT_EQ(work.holds().size(), 2U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(bindings, 2U);
  EXPECT_EQ(seen, counting(4, 64));
  EXPECT_EQ(read(out), (Words{0, 9, 9, 0}));
}

TEST_P(Cts, native_callbacks_and_kernels_run_in_the_order_of_their_barriers) {
  constexpr size_t kElements = 4096;
  const auto data = uploaded(Words(kElements, 1), "data");
  const std::vector in_place{Binding::of(data, Access::read_write)};
  auto work = list();
  uint32_t expected = 1;
  for (uint32_t step = 0; step < 20; ++step) {
    affine(work, data, 3, step);
    work.barrier();
    work.native(
        [step](const NativeCall& call) {
          for (uint32_t& x : words_of(call, 0)) x = x * 5 + step;
        },
        in_place);
    work.barrier();
    expected = (expected * 3 + step) * 5 + step;
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kElements, expected));
}

TEST_P(Cts, a_native_callback_runs_after_the_waits_of_its_list_and_before_its_point) {
  const Gate closed = gate();
  const auto calls = std::make_shared<Counter>();
  auto work = list();
  work.native([calls](const NativeCall&) { calls->add(); }, {});
  const Point point = submit(queue(), work, {closed.data()});
  EXPECT_EQ(calls->value(), 0);
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(calls->value(), 1);
}

TEST_P(Cts, a_native_callback_of_a_list_that_fails_early_is_not_called) {
  const Point bad = failed_point(queue(), Failure(ErrorCode::execution, "cause"));
  const auto calls = std::make_shared<Counter>();
  auto work = list();
  work.native([calls](const NativeCall&) { calls->add(); }, {});
  EXPECT_TRUE(failed(submit(queue(), work, {{bad, WaitKind::data}})));
  EXPECT_EQ(calls->value(), 0);
}

TEST_P(Cts, a_native_callback_that_throws_fails_its_list) {
  auto work = list("throwing list");
  work.native([](const NativeCall&) { throw std::runtime_error("out of luck"); }, {}, "thrower");
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  EXPECT_EQ(point.failure().code(), ErrorCode::execution);
  EXPECT_THAT(point.failure().message(), HasSubstr("out of luck"));
  EXPECT_THAT(point.failure().message(), HasSubstr("thrower"));

  auto other = list();
  other.native([](const NativeCall&) { throw 42; }, {}, "odd thrower");
  EXPECT_TRUE(failed(submit(queue(), other)));
  auto good = list();
  EXPECT_TRUE(reached(submit(queue(), good)));
}

TEST_P(Cts, a_native_callback_is_destroyed_with_its_list) {
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  auto work = list();
  work.native([token](const NativeCall&) {}, {});
  token.reset();
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_FALSE(watch.expired()) << "not retired yet";
  queue()->retire();
  EXPECT_TRUE(watch.expired());
}

TEST_P(Cts, a_native_callback_that_submits_to_its_own_queue_is_answered_with_an_error) {
  Queue* const own = queue().get();
  const DeviceInfo info = device().info();
  bool refused = false;
  auto work = list();
  work.native(
      [&, own, info](const NativeCall&) {
        CommandList inner(info, "inner");
        try {
          refused = !own->submit(inner).ok();
        } catch (const Error&) {
          refused = true;
        }
      },
      {});
  const Point point = submit(queue(), work);
  EXPECT_TRUE(resolved(point));
  EXPECT_TRUE(refused);
  auto good = list();
  EXPECT_TRUE(reached(submit(queue(), good)));
}

TEST_P(Cts, a_native_callback_that_asks_for_its_own_queues_turn_gets_none) {
  Queue* const own = queue().get();
  const DeviceInfo info = device().info();
  bool raised = false;
  bool submitted = false;
  auto work = list();
  work.native(
      [&, own, info](const NativeCall&) {
        try {
          const auto turn = own->take_turn(patience());
        } catch (const UsageError&) {
          raised = true;
        }
        try {
          CommandList inner(info, "inner");
          const auto turn = own->try_take_turn();
          submitted = turn.has_value() && own->submit(*turn, inner).ok();
        } catch (const UsageError&) {
          submitted = false;
        }
      },
      {});
  EXPECT_TRUE(resolved(submit(queue(), work)));
  EXPECT_TRUE(raised);
  EXPECT_FALSE(submitted);
  EXPECT_TRUE(queue()->try_take_turn().has_value());
}

TEST_P(Cts, a_native_callback_may_submit_to_another_queue) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  Queue* const other = queue(1).get();
  const DeviceInfo info = device().info();
  Point inner_point;
  auto work = list();
  work.native(
      [&, other, info](const NativeCall&) {
        CommandList inner(info, "inner");
        inner_point = other->submit(inner).or_raise();
      },
      {});
  ASSERT_TRUE(reached(submit(queue(0), work)));
  ASSERT_TRUE(inner_point.timeline);
  EXPECT_TRUE(reached(inner_point));
}

TEST_P(Cts, declared_bindings_are_checked_and_held_like_any_other) {
  Imported data = imported(Words(16), "declared");
  auto work = list();
  const NativeCallback nothing = [](const NativeCall&) {};
  const std::vector too_long{
      Binding::of(data.allocation, {4_B, data.allocation->size()}, Access::read)};
  EXPECT_THAT(message_of_refusal([&] { work.native(nothing, too_long); }), HasSubstr("declared"));
  const std::vector null{Binding::of(Ref<Allocation>(), Access::read)};
  EXPECT_THROW(work.native(nothing, null), UsageError);
  const std::vector many(kMaxBindings + 1, Binding::of(data.allocation, Access::read));
  EXPECT_THROW(work.native(nothing, many), UsageError);
  EXPECT_TRUE(work.empty());
  const std::vector good{Binding::of(data.allocation, Access::read)};
  work.native(nothing, good);
  data.allocation.reset();
  EXPECT_EQ(data.deletions->value(), 0);
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(data.deletions->value(), 0);
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_program_may_contain_native_callbacks_over_slots) {
  const auto calls = std::make_shared<Counter>();
  auto steps = list("steps");
  const std::vector slot{Binding::of_slot(0, range(0, 16), Access::write)};
  steps.native(
      [calls](const NativeCall& call) {
        std::ranges::fill(words_of(call, 0), 6U);
        calls->add();
      },
      slot);
  const auto program = device().create_program(steps).or_raise();
  const auto a = uploaded(Words(4), "a");
  const auto b = uploaded(Words(4), "b");
  for (const auto& data : {a, b}) {
    auto one = replay(program, {Binding::of(data, Access::write)});
    ASSERT_TRUE(reached(submit(queue(), one)));
    EXPECT_EQ(read(data), Words(4, 6));
  }
  EXPECT_EQ(calls->value(), 2);
}

}  // namespace holdfast::hal::cts
