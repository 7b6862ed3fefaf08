// compile(): scenarios that users of other frameworks met, and those that its header promises.

#include "holdfast/compile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

#include "holdfast/array/scenarios/array_kernels_test.h"

namespace holdfast {
namespace {

using ::testing::Each;
using testing::Gate;
using testing::patient;

// (x + 1) * 2 through intermediates that several replays must not share.
Array two_branches(const Array& x) {
  const Array a = run(plus_one(), x);
  const Array b = run(plus_one(), a);
  return run(elementwise_kernel("doubled", "a[i] * T(2)"), b) - a;
}
float expected_of(float x) { return 2 * (x + 2) - (x + 1); }

// pytorch#153025: the buffers of every replay in flight are kept, not only the last one's.
ARRAY_SCENARIO(pytorch_153025_buffers_of_every_replay_in_flight_are_kept) {
  ArrayRig rig(world);
  const auto f = compile(two_branches);
  std::vector<Array> results;
  for (int i = 0; i < 6; ++i) {
    results.push_back(f(filled(i, rig.stream())));
    async_eval(results.back());
  }
  rig.device.clear_cache();
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(results[static_cast<size_t>(i)].to_vector<float>(),
                Each(expected_of(static_cast<float>(i))));
  }
}

ARRAY_SCENARIO(compile_replays_in_flight_on_several_streams_and_tasks) {
  ArrayRig rig(world, {.device = {.queues = 3, .helpers = 0}});
  const auto f = compile(two_branches);
  std::vector<sync::Thread> tasks;
  for (int t = 0; t < 3; ++t) {
    tasks.push_back(world.task(fmt::format("caller {}", t), [&, t] {
      const UseStream scope(rig.device.new_stream(fmt::format("stream {}", t)));
      std::vector<Array> results;
      for (int i = 0; i < 3; ++i) {
        results.push_back(f(full({kLength}, 10 * t + i, float32)));
        async_eval(results.back());
      }
      for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(results[static_cast<size_t>(i)].to_vector<float>(),
                    Each(expected_of(static_cast<float>(10 * t + i))));
      }
    }));
  }
}

// The function, its constants and its arguments go while replays are in flight.
ARRAY_SCENARIO(compile_function_is_dropped_with_replays_in_flight) {
  ArrayRig rig(world);
  Array result;
  {
    Array w = filled(3, rig.stream());
    Array x = filled(4, rig.stream());
    auto f = compile([&](const Array& a) { return two_branches(a * w); });
    result = f(x);
    async_eval(result);
    const Array lazy = f(x);  // never evaluated
  }
  rig.device.clear_kernels();
  rig.device.clear_cache();
  for (int i = 0; i < 4; ++i) async_eval(filled(i, rig.stream()) + 1.0F);
  EXPECT_THAT(result.to_vector<float>(), Each(expected_of(12)));
}

// warp#1714: another task drops memory while a program is recorded.
ARRAY_SCENARIO(warp_1714_memory_dropped_while_a_program_is_recorded) {
  ArrayRig rig(world);
  std::vector<Array> dropped;
  for (int i = 0; i < 4; ++i) {
    dropped.push_back(run(plus_one(), filled(i, rig.stream())));
    async_eval(dropped.back());
  }
  auto dropper = world.task("dropper", [&] {
    for (Array& array : dropped) array = Array();
    rig.device.clear_cache();
  });
  const auto f = compile(two_branches);
  const Array x = filled(1, rig.stream());
  const Array first = f(x);
  const Array second = f(x);
  async_eval(first, second);
  EXPECT_THAT(first.to_vector<float>(), Each(expected_of(1)));
  EXPECT_THAT(second.to_vector<float>(), Each(expected_of(1)));
  dropper.join();
}

// Two programs that read the same scratch array of their makers: dropping one leaves the other.
ARRAY_SCENARIO(compile_two_programs_share_an_array_and_one_is_dropped) {
  ArrayRig rig(world);
  Array shared = run(plus_one(), filled(1, rig.stream()));
  const auto add = [&](const Array& x) { return run(plus_one(), x) + shared; };
  auto first = std::make_unique<decltype(compile(add))>(compile(add));
  const auto second = compile([&](const Array& x) { return two_branches(x) * shared; });
  const Array x = filled(5, rig.stream());
  const Array a = (*first)(x);
  const Array b = second(x);
  async_eval(a, b);
  first.reset();
  shared = Array();
  rig.device.clear_cache();
  for (int i = 0; i < 3; ++i) async_eval(run(plus_one(), filled(i, rig.stream())));
  EXPECT_THAT(a.to_vector<float>(), Each(8));
  EXPECT_THAT(second(x).to_vector<float>(), Each(2 * expected_of(5)));
  EXPECT_THAT(b.to_vector<float>(), Each(2 * expected_of(5)));
}

// A decode loop: state in place, each step's result read later, one step's state kept by somebody.
ARRAY_SCENARIO(compile_state_in_place_while_earlier_steps_are_in_flight) {
  ArrayRig rig(world);
  Array kv = filled(0, rig.stream());
  const auto step = compile(
      [&](const Array& x) {
        Array seen = kv + x;
        kv = slice_update(kv, slice(seen, {{.stop = 8}}), {{.stop = 8}});
        return seen;
      },
      {.state = {&kv}});
  std::vector<Array> seen;
  Array kept;
  for (int i = 1; i <= 5; ++i) {
    seen.push_back(step(filled(i, rig.stream())));
    async_eval(seen.back(), kv);
    if (i == 3) kept = kv;
  }
  float sum = 0;
  for (int i = 1; i <= 5; ++i) {
    sum += static_cast<float>(i);
    const Floats values = seen[static_cast<size_t>(i - 1)].to_vector<float>();
    EXPECT_EQ(values[0], sum);
    EXPECT_EQ(values[8], static_cast<float>(i));
  }
  EXPECT_EQ(kept.to_vector<float>()[7], 6);
  EXPECT_EQ(kv.to_vector<float>()[7], 15);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().functions_traced, 1U);
    EXPECT_EQ(rig.stats().hidden_copies, 1U) << "of what was kept";
  }
}

// A failure on the device reaches the results and the state; a good array heals the state.
class Unlucky final : public Operation {
 public:
  std::string_view name() const noexcept override { return "unlucky"; }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    encoder.native([](const hal::NativeCall&) { throw std::runtime_error("bad luck"); }, {},
                   {&out, 1});
  }
};

ARRAY_SCENARIO(compile_failures_reach_results_and_state) {
  ArrayRig rig(world);
  Array kv = filled(1, rig.stream());
  const auto step = compile(
      [&](const Array& x) {
        kv = kv + x;
        return kv * 2.0F;
      },
      {.state = {&kv}});
  const Array bad =
      apply(make_ref<const Unlucky>(), {}, OutputType{{kLength}, float32}, rig.stream());
  const Array result = step(bad);
  for (const Array* const array : std::array<const Array*, 2>{&result, &kv}) {
    try {
      (void)array->to_vector<float>();
      world.fail("elements were read that nobody has written");
    } catch (const Error& error) {
      if (!world.has_faults()) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("bad luck"));
      }
    }
  }
  kv = filled(10, rig.stream());
  EXPECT_THAT(step(filled(1, rig.stream())).to_vector<float>(), Each(22));
}

// A reader on another stream is held up; the state's memory is written after it.
ARRAY_SCENARIO(compile_state_is_written_after_readers_on_another_stream) {
  ArrayRig rig(world, {.device = {.queues = 3, .helpers = 0}});
  const Stream b = rig.device.new_stream("b");
  Gate gate(*rig.device.context());
  Array kv = filled(2, rig.stream());
  kv.eval(patient());
  const auto step = compile([&] { kv = kv + 1.0F; }, {.state = {&kv}});
  b.runtime_stream()->wait_for(gate.point());
  const Array read = run(plus_one(), kv, "reads kv", b);
  async_eval(read);
  step();
  async_eval(kv);
  gate.open();
  EXPECT_THAT(read.to_vector<float>(), Each(3));
  EXPECT_THAT(kv.to_vector<float>(), Each(3));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().hidden_copies, 0U);
  }
}

}  // namespace
}  // namespace holdfast
