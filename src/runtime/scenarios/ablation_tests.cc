#include <algorithm>

#include "holdfast/runtime/scenarios/ablations.h"

namespace holdfast::testing {
namespace {

class AblationTest : public ::testing::TestWithParam<AblationCase> {
 protected:
  // The same verdict, the same words, the same schedule, again and again.
  static void kill_repeatedly(int times, Family family = Family::cpu) {
    const auto kill_it = [family] { return kill(GetParam(), 2000, family); };
    const Kill first = kill_it();
    ASSERT_TRUE(first.killed) << GetParam().scenario << " does not notice that "
                              << ablation_token(GetParam().ablation) << " after " << first.schedules
                              << " schedules";
    for (int i = 1; i < times; ++i) {
      const Kill again = kill_it();
      ASSERT_TRUE(again.killed);
      ASSERT_EQ(again.schedules, first.schedules);
      ASSERT_EQ(again.digest, first.digest);
      ASSERT_EQ(again.sentence, first.sentence);
      ASSERT_EQ(again.replay_line, first.replay_line);
    }
  }
  static void kill_on(Family gpu) {
    if (const std::string why = why_no(gpu); !why.empty()) GTEST_SKIP() << why;
    kill_repeatedly(2, gpu);
    // What the driver says of a program without a safety is no failure.
    take_complaints(gpu);
  }
};

TEST_P(AblationTest, is_killed_by_its_scenario_every_time) { kill_repeatedly(3); }
TEST_P(AblationTest, is_killed_by_its_scenario_on_vulkan) { kill_on(Family::vulkan); }
TEST_P(AblationTest, is_killed_by_its_scenario_on_cuda) { kill_on(Family::cuda); }
TEST_P(AblationTest, nightly_is_killed_a_hundred_times) { kill_repeatedly(100); }

INSTANTIATE_TEST_SUITE_P(Ablations, AblationTest, ::testing::ValuesIn(ablation_cases()),
                         [](const auto& test) {
                           std::string name(ablation_token(test.param.ablation));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A device that lets its own time decide something would make a schedule that nobody can repeat.
void expect_the_same_twice(Family gpu) {
  if (const std::string why = why_no(gpu); !why.empty()) GTEST_SKIP() << why;
  for (const Scenario& scenario : scenarios()) {
    const auto digest = [&] {
      return simulation::explore(as_program(scenario.body, gpu), {1, 8}, faults_for).digest;
    };
    EXPECT_EQ(digest(), digest()) << scenario.name;
  }
}
TEST(RuntimeScenarioSchedules, are_the_same_twice_on_vulkan) {
  expect_the_same_twice(Family::vulkan);
}
TEST(RuntimeScenarioSchedules, are_the_same_twice_on_cuda) { expect_the_same_twice(Family::cuda); }

}  // namespace
}  // namespace holdfast::testing
