#include <algorithm>

#include "holdfast/runtime/scenarios/ablations.h"

namespace holdfast::testing {
namespace {

class AblationTest : public ::testing::TestWithParam<AblationCase> {
 protected:
  // The same verdict, the same words, the same schedule, again and again.
  static void kill_repeatedly(int times) {
    const Kill first = kill(GetParam());
    ASSERT_TRUE(first.killed) << GetParam().scenario << " does not notice that "
                              << ablation_token(GetParam().ablation) << " after " << first.schedules
                              << " schedules";
    for (int i = 1; i < times; ++i) {
      const Kill again = kill(GetParam());
      ASSERT_TRUE(again.killed);
      ASSERT_EQ(again.schedules, first.schedules);
      ASSERT_EQ(again.digest, first.digest);
      ASSERT_EQ(again.sentence, first.sentence);
      ASSERT_EQ(again.replay_line, first.replay_line);
    }
  }
};

TEST_P(AblationTest, is_killed_by_its_scenario_every_time) { kill_repeatedly(3); }
TEST_P(AblationTest, nightly_is_killed_a_hundred_times) { kill_repeatedly(100); }

INSTANTIATE_TEST_SUITE_P(Ablations, AblationTest, ::testing::ValuesIn(ablation_cases()),
                         [](const auto& test) {
                           std::string name(ablation_token(test.param.ablation));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::testing
