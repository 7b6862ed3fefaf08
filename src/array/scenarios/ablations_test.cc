// Safeties of the array layer taken away, and what shows that they are missing.

#include "holdfast/base/ablation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "holdfast/array/scenarios/array_rig_test.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/simulation/explore.h"

namespace holdfast {
namespace {

// Twice its input plus one, by way of scratch memory.
class ThroughScratch final : public Operation {
 public:
  std::string_view name() const noexcept override { return "through_scratch"; }
  void record(Encoder& encoder) const override {
    static const Kernel twice(
        {.name = "twice",
         .inputs = {"a"},
         .outputs = {"y"},
         .source = "uint i = thread_position_in_grid.x; y[i] = 2.0f * a[i];"});
    static const Kernel plus_one(
        {.name = "plus_one",
         .inputs = {"a"},
         .outputs = {"y"},
         .source = "uint i = thread_position_in_grid.x; y[i] = a[i] + 1.0f;"});
    const auto n = static_cast<uint32_t>(encoder.input(0).size());
    const std::array in{encoder.input(0)};
    const std::array between{encoder.scratch(in[0].shape(), float32)};
    const std::array out{encoder.output(0)};
    encoder.launch(
        twice, {.inputs = in, .outputs = between, .grid = {n, 1, 1}, .threadgroup = {32, 1, 1}});
    encoder.launch(
        plus_one,
        {.inputs = between, .outputs = out, .grid = {n, 1, 1}, .threadgroup = {32, 1, 1}});
  }
};

Array through_scratch(const Array& x) {
  return apply(make_ref<const ThroughScratch>(), std::span(&x, 1), OutputType{x.shape(), float32});
}

// Nine operations in a row, each with scratch of its own, on two streams.
void nine_operations_with_scratch(testing::World& world) {
  ArrayRig rig(world);
  const Stream other = rig.device.new_stream("other");
  std::vector<Array> results;
  for (int i = 0; i < 9; ++i) {
    const UseStream scope(i % 2 == 0 ? rig.stream() : other);
    const Array x(std::vector<float>{static_cast<float>(i), 1, 2, 3});
    results.push_back(through_scratch(x));
    async_eval(results.back());
  }
  for (int i = 0; i < 9; ++i) {
    const auto f = static_cast<float>(i);
    const std::vector<float> expected{2 * f + 1, 3, 5, 7};
    if (results[static_cast<size_t>(i)].to_vector<float>() != expected) {
      world.fail(fmt::format("operation {} computed with memory that was not its own", i));
    }
  }
}

// An array that is given away in place and kept.
void an_array_given_away_and_kept(testing::World& world) {
  ArrayRig rig(world);
  const Kernel twice({.name = "twice_in_place",
                      .in_place = {"x"},
                      .source = "uint i = thread_position_in_grid.x; x[i] = 2.0f * x[i];"});
  const Array x = run(elementwise_kernel("plus_one", "a[i] + T(1)"), Array(ramp(4)));
  const Array y = twice({}, {.grid = {4, 1, 1}, .threadgroup = {32, 1, 1}, .in_place = {x}})[0];
  eval(y);
  if (x.to_vector<float>() != std::vector<float>{1, 2, 3, 4}) {
    world.fail("an array that somebody keeps was overwritten");
  }
  if (y.to_vector<float>() != std::vector<float>{2, 4, 6, 8}) world.fail("the result is wrong");
}

struct KillingScenario {
  const char* name;
  void (*body)(testing::World&);
};
constexpr KillingScenario kScratch{"nine_operations_with_scratch", nine_operations_with_scratch};
constexpr KillingScenario kGiven{"an_array_given_away_and_kept", an_array_given_away_and_kept};

ARRAY_SCENARIO(mlx_pr_3462_nine_operations_with_scratch) { kScratch.body(world); }
ARRAY_SCENARIO(an_array_given_away_and_kept) { kGiven.body(world); }

#ifdef HOLDFAST_ABLATIONS

struct AblationCase {
  Ablation ablation;
  const char* stands_for;
  KillingScenario scenario;  // the one that kills it
  const char* says;          // part of what it then says
};
constexpr std::array kCases{
    AblationCase{Ablation::scratch_not_held,
                 "mlx PR 3462: nine operations that forgot their temporaries", kScratch, "scratch"},
    AblationCase{Ablation::donated_while_seen, "mlx#3630: memory donated under a reader", kGiven,
                 "an array that somebody keeps was overwritten"},
};
static_assert(kCases.size() == static_cast<size_t>(kFirstGraphAblation) -
                                   static_cast<size_t>(kFirstArrayAblation),
              "every ablation of arrays has a scenario that kills it");

void PrintTo(const AblationCase& ablation, std::ostream* out) {
  *out << ablation_token(ablation.ablation);
}

class ArrayAblation : public ::testing::TestWithParam<AblationCase> {};

TEST_P(ArrayAblation, is_killed_by_its_scenario_every_time) {
  if (has_sanitizer())
    GTEST_SKIP() << "what is missing is then the sanitizer's to report, and ends the process";
  const AblationCase& ablation = GetParam();
  const auto explore = [&] {
    const ScopedAblation off(ablation.ablation);
    return simulation::explore(testing::as_program(ablation.scenario.body), {1, 2000},
                               [](uint64_t) { return std::vector<std::string>(); });
  };
  const simulation::Exploration first = explore();
  ASSERT_TRUE(first.finding) << ablation.scenario.name << " does not notice, in " << first.schedules
                             << " schedules";
  EXPECT_THAT(first.finding->result.failure, ::testing::HasSubstr(ablation.says));
  EXPECT_TRUE(first.finding->repeats);
  const simulation::Exploration second = explore();
  ASSERT_TRUE(second.finding);
  EXPECT_EQ(first.finding->result.outcome.digest, second.finding->result.outcome.digest);

  std::string sentence = first.finding->result.failure;
  std::ranges::replace(sentence, '\n', ' ');
  fmt::print("{}\n  stands for  {}\n  killed by   {}, schedules needed: {}\n  it says     {}\n\n",
             ablation_token(ablation.ablation), ablation.stands_for, ablation.scenario.name,
             first.schedules, sentence);
}

INSTANTIATE_TEST_SUITE_P(Arrays, ArrayAblation, ::testing::ValuesIn(kCases), [](const auto& test) {
  std::string name(ablation_token(test.param.ablation));
  std::ranges::replace(name, '-', '_');
  return name;
});

#endif

}  // namespace
}  // namespace holdfast
