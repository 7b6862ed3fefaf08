#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/testing/world.h"

namespace holdfast::testing {

struct Scenario {
  std::string name;  // "quadrants_493_deferred_list_not_dropped_at_submit"
  ScenarioBody body;
};
// All of this program.
std::vector<Scenario>& scenarios();
// Null where there is none of that name.
const Scenario* find_scenario(std::string_view name);

// One test: the scenario in that mode. In a simulation, HOLDFAST_SCHEDULES schedules (100 unless
// set) or, where HOLDFAST_ADVERSARY names one, that one alone.
void run_scenario(const ScenarioBody& body, World::Mode mode);

}  // namespace holdfast::testing

// A failure that users met in public, named after its source, in runtime form:
//   RUNTIME_SCENARIO(pytorch_23729_read_on_another_stream) { Rig rig(world); ... }
// Three tests: RuntimeScenario.NAME_plain, NAME_validate and NAME_adversary.
#define RUNTIME_SCENARIO(NAME)                                                  \
  static void scenario_##NAME(::holdfast::testing::World& world);               \
  [[maybe_unused]] static const bool registered_##NAME = [] {                   \
    ::holdfast::testing::scenarios().push_back({#NAME, scenario_##NAME});       \
    return true;                                                                \
  }();                                                                          \
  TEST(RuntimeScenario, NAME##_plain) {                                         \
    run_scenario(scenario_##NAME, ::holdfast::testing::World::Mode::plain);     \
  }                                                                             \
  TEST(RuntimeScenario, NAME##_validate) {                                      \
    run_scenario(scenario_##NAME, ::holdfast::testing::World::Mode::validate);  \
  }                                                                             \
  TEST(RuntimeScenario, NAME##_adversary) {                                     \
    run_scenario(scenario_##NAME, ::holdfast::testing::World::Mode::adversary); \
  }                                                                             \
  static void scenario_##NAME([[maybe_unused]] ::holdfast::testing::World& world)
