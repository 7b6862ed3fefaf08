#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/simulation/explore.h"
#include "holdfast/testing/world.h"

namespace holdfast {

struct KillingScenario {
  const char* name;
  void (*body)(testing::World&);
};

#ifdef HOLDFAST_ABLATIONS

// A safety that is taken away, and what then shows that it is missing.
struct AblationCase {
  Ablation ablation;
  const char* stands_for;
  KillingScenario scenario;  // the one that kills it
  const char* says;          // part of what it then says
};

inline void PrintTo(const AblationCase& ablation, std::ostream* out) {
  *out << ablation_token(ablation.ablation);
}

inline std::string name_of_case(const ::testing::TestParamInfo<AblationCase>& tested) {
  std::string name(ablation_token(tested.param.ablation));
  std::ranges::replace(name, '-', '_');
  return name;
}

// Its scenario notices, says so, and does the same again from the same seeds.
inline void expect_killed(const AblationCase& ablation) {
  if (has_sanitizer())
    GTEST_SKIP() << "what is missing is then the sanitizer's to report, and ends the process";
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

#endif

}  // namespace holdfast
