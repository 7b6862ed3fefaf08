#include "holdfast/base/ablation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "holdfast/kernel/cache/in_flight_scenarios_test.h"
#include "holdfast/simulation/explore.h"

#ifdef HOLDFAST_ABLATIONS

namespace holdfast::kernel {
namespace {

// A safety of the kernel cache that can be taken away, and what shows that it is missing.
struct AblationCase {
  Ablation ablation;
  const char* stands_for;
  const char* scenario;  // the one that kills it
  const char* says;      // part of what it then says
};
constexpr std::array kCases{
    AblationCase{Ablation::kernel_key_by_name, "mlx#3832, mlx#4275: one name, two sources",
                 "two_kernels_of_one_name", "the second ran other code"},
    AblationCase{Ablation::kernel_key_clear_on_mismatch,
                 "mlx#3347: a new source under the name destroys what is in flight",
                 "one_name_again_while_the_first_is_in_flight", "kernel 'scale'"},
    AblationCase{Ablation::evicted_in_flight, "mlx#3347: pipeline evicted in flight",
                 "evicted_and_cleared_while_in_flight", "kernel 'evicted'"},
    AblationCase{Ablation::cached_before_compiled, "mlx#3624: an entry that never compiled",
                 "failed_compile_leaves_no_entry",
                 "a kernel that does not compile was found in the cache"},
    AblationCase{Ablation::hash_without_equality, "two contents, one hash",
                 "two_kernels_of_one_digest", "the second ran other code"},
    AblationCase{Ablation::key_without_lengths, "fields that spell the same when joined",
                 "fields_that_spell_the_same_when_joined", "the second ran other code"},
};
static_assert(kCases.size() == static_cast<size_t>(kFirstArrayAblation) -
                                   static_cast<size_t>(kFirstKernelAblation),
              "every ablation of the kernel cache has a scenario that kills it");

void PrintTo(const AblationCase& ablation, std::ostream* out) {
  *out << ablation_token(ablation.ablation);
}

simulation::Exploration explore_without(const AblationCase& ablation) {
  const auto scenarios = cache_scenarios();
  const auto scenario = std::ranges::find_if(
      scenarios, [&](const auto& s) { return std::string_view(s.name) == ablation.scenario; });
  if (scenario == scenarios.end()) return {};
  const ScopedAblation off(ablation.ablation);
  // No faults: the safety alone is missing.
  return simulation::explore(testing::as_program(scenario->body), {1, 2000},
                             [](uint64_t) { return std::vector<std::string>(); });
}

class KernelAblation : public ::testing::TestWithParam<AblationCase> {};

TEST_P(KernelAblation, is_killed_by_its_scenario_every_time) {
  const AblationCase& ablation = GetParam();
  const simulation::Exploration first = explore_without(ablation);
  ASSERT_TRUE(first.finding) << ablation.scenario << " does not notice, in " << first.schedules
                             << " schedules";
  EXPECT_THAT(first.finding->result.failure, ::testing::HasSubstr(ablation.says));
  EXPECT_TRUE(first.finding->repeats);
  const simulation::Exploration second = explore_without(ablation);
  ASSERT_TRUE(second.finding);
  EXPECT_EQ(first.finding->result.outcome.digest, second.finding->result.outcome.digest);

  std::string sentence = first.finding->result.failure;
  std::ranges::replace(sentence, '\n', ' ');
  fmt::print(
      "{}\n  stands for  {}\n  killed by   {}, schedules needed: {}\n  it says     {}\n"
      "  replay      HOLDFAST_ABLATE={} {} build/dev/holdfast_kernel_test "
      "--gtest_filter='*CacheInFlight*adversary/{}'\n\n",
      ablation_token(ablation.ablation), ablation.stands_for, ablation.scenario, first.schedules,
      sentence, ablation_token(ablation.ablation), simulation::replay_line(first.finding->shortest),
      ablation.scenario);
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelAblation, ::testing::ValuesIn(kCases),
                         [](const auto& test) {
                           std::string name(ablation_token(test.param.ablation));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::kernel

#endif
