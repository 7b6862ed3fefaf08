// Safeties of compiled functions taken away, and what shows that they are missing.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "holdfast/array/scenarios/ablation_case_test.h"
#include "holdfast/array/scenarios/array_kernels_test.h"
#include "holdfast/compile.h"

namespace holdfast {
namespace {

using testing::World;

void expect_each(World& world, const Array& array, float expected, const char* what) {
  const Floats values = array.to_vector<float>();
  if (std::ranges::all_of(values, [&](float v) { return v == expected; })) return;
  world.fail(fmt::format("{}: {} instead of {}", what, values[0], expected));
}

// Functions come and go, and memory is used again: each computes its own.
void functions_made_and_dropped(World& world) {
  ArrayRig rig(world);
  const Array x = filled(1, rig.stream());
  for (int i = 0; i < 8; ++i) {
    const auto plus = compile([](const Array& a) { return run(plus_one(), a); });
    expect_each(world, plus(x), 2, "a function computes what another one did");
    const auto minus = compile([i](const Array& a) { return a * static_cast<float>(i); });
    expect_each(world, minus(x), static_cast<float>(i), "a function computes what another one did");
  }
}

void calls_with_two_shapes(World& world) {
  ArrayRig rig(world);
  const auto f = compile([](const Array& a) { return run(plus_one(), a); });
  const Array first = f(full({8}, 1, float32));
  const Array second = f(full({16}, 2, float32));
  if (second.shape() != Shape{16}) return world.fail("a call has the shape of another one");
  expect_each(world, first, 2, "the first call");
  expect_each(world, second, 3, "the second call");
}

void state_replaced_between_calls(World& world) {
  ArrayRig rig(world);
  Array kv = filled(1, rig.stream());
  const auto step = compile([&] { kv = kv + 1.0F; }, {.state = {&kv}});
  step();
  expect_each(world, kv, 2, "the first call");
  kv = filled(10, rig.stream());
  step();
  expect_each(world, kv, 11, "a call used state that was replaced");
}

void replays_in_flight_on_two_streams(World& world) {
  ArrayRig rig(world);
  const Stream other = rig.device.new_stream("other");
  const auto f = compile([](const Array& a) { return run(plus_one(), run(plus_one(), a)); });
  std::vector<Array> results;
  for (int i = 0; i < 4; ++i) {
    const UseStream scope(i % 2 == 0 ? rig.stream() : other);
    results.push_back(f(full({kLength}, i, float32)));
    async_eval(results.back());
  }
  for (int i = 0; i < 4; ++i) {
    expect_each(world, results[static_cast<size_t>(i)], static_cast<float>(i + 2),
                "a replay worked in memory of another one");
  }
}

// One branch is done with x long before the other one is.
void a_short_and_a_long_branch(World& world) {
  ArrayRig rig(world);
  const auto f = compile([](const Array& a) {
    const Array x = run(plus_one(), a);
    const Array brief = run(plus_one(), x);
    Array lengthy = brief;
    for (int i = 0; i < 4; ++i) lengthy = run(plus_one(), lengthy);
    return lengthy + x;
  });
  expect_each(world, f(filled(1, rig.stream())), 9, "memory was given out that a branch needed");
}

constexpr KillingScenario kMadeAndDropped{"functions_made_and_dropped", functions_made_and_dropped};
constexpr KillingScenario kTwoShapes{"calls_with_two_shapes", calls_with_two_shapes};
constexpr KillingScenario kReplaced{"state_replaced_between_calls", state_replaced_between_calls};
constexpr KillingScenario kTwoStreams{"replays_in_flight_on_two_streams",
                                      replays_in_flight_on_two_streams};
constexpr KillingScenario kBranches{"a_short_and_a_long_branch", a_short_and_a_long_branch};

ARRAY_SCENARIO(compile_functions_made_and_dropped) { kMadeAndDropped.body(world); }
ARRAY_SCENARIO(compile_calls_with_two_shapes) { kTwoShapes.body(world); }
ARRAY_SCENARIO(compile_state_replaced_between_calls) { kReplaced.body(world); }
ARRAY_SCENARIO(compile_replays_in_flight_on_two_streams) { kTwoStreams.body(world); }
ARRAY_SCENARIO(compile_a_short_and_a_long_branch) { kBranches.body(world); }

#ifdef HOLDFAST_ABLATIONS

constexpr std::array kCompileCases{
    AblationCase{Ablation::program_by_address, "mlx: programs kept by the address of a function",
                 kMadeAndDropped, "a function computes what another one did"},
    AblationCase{Ablation::program_key_without_shape, "one trace for all shapes", kTwoShapes,
                 "shape of another one"},
    AblationCase{Ablation::program_keeps_first_state,
                 "CUDA graphs: a source address that went stale", kReplaced, "state"},
    AblationCase{Ablation::arena_shared_by_replays,
                 "pytorch#153025: one pool of memory for all replays", kTwoStreams,
                 "of allocation 'scratch'"},
    AblationCase{Ablation::arena_freed_after_first_reader,
                 "a free before the last use in another branch", kBranches,
                 "memory was given out that a branch needed"},
};
static_assert(kCompileCases.size() == static_cast<size_t>(kFirstGraphAblation) -
                                          static_cast<size_t>(kFirstCompileAblation),
              "every ablation of compiled functions has a scenario that kills it");

class CompileAblation : public ::testing::TestWithParam<AblationCase> {};

TEST_P(CompileAblation, is_killed_by_its_scenario_every_time) { expect_killed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Compile, CompileAblation, ::testing::ValuesIn(kCompileCases),
                         name_of_case);

#endif

}  // namespace
}  // namespace holdfast
