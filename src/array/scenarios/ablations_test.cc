// Safeties of the array layer taken away, and what shows that they are missing.

#include <array>

#include "holdfast/array/scenarios/ablation_case_test.h"
#include "holdfast/array/scenarios/array_rig_test.h"

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

constexpr KillingScenario kScratch{"nine_operations_with_scratch", nine_operations_with_scratch};
constexpr KillingScenario kGiven{"an_array_given_away_and_kept", an_array_given_away_and_kept};

ARRAY_SCENARIO(mlx_pr_3462_nine_operations_with_scratch) { kScratch.body(world); }
ARRAY_SCENARIO(an_array_given_away_and_kept) { kGiven.body(world); }

#ifdef HOLDFAST_ABLATIONS

constexpr std::array kCases{
    AblationCase{Ablation::scratch_not_held,
                 "mlx PR 3462: nine operations that forgot their temporaries", kScratch, "scratch"},
    AblationCase{Ablation::donated_while_seen, "mlx#3630: memory donated under a reader", kGiven,
                 "an array that somebody keeps was overwritten"},
};
static_assert(kCases.size() == static_cast<size_t>(kFirstCompileAblation) -
                                   static_cast<size_t>(kFirstArrayAblation),
              "every ablation of arrays has a scenario that kills it");

class ArrayAblation : public ::testing::TestWithParam<AblationCase> {};

TEST_P(ArrayAblation, is_killed_by_its_scenario_every_time) { expect_killed(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Arrays, ArrayAblation, ::testing::ValuesIn(kCases), name_of_case);

#endif

}  // namespace
}  // namespace holdfast
