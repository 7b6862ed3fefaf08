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
// The test that simulates it: "RuntimeScenario.NAME_vulkan_adversary".
std::string adversary_test(std::string_view scenario, Family family);

// One test: the scenario in that mode. In a simulation, HOLDFAST_SCHEDULES schedules (unless set,
// 100 on the CPU and 20 on a GPU) or, where HOLDFAST_ADVERSARY names one, that one alone. Skipped
// where there is no such device.
void run_scenario(const ScenarioBody& body, World::Mode mode, Family family);

}  // namespace holdfast::testing

// A failure that users met in public, named after its source, in runtime form:
//   RUNTIME_SCENARIO(pytorch_23729_read_on_another_stream) { Rig rig(world); ... }
// Three tests for each family: RuntimeScenario.NAME_plain, NAME_validate and NAME_adversary, and
// the same for NAME_vulkan and NAME_cuda, as in NAME_cuda_plain.
#define RUNTIME_SCENARIO(NAME)                                                                    \
  static void scenario_##NAME(::holdfast::testing::World& world);                                 \
  [[maybe_unused]] static const bool registered_##NAME = [] {                                     \
    ::holdfast::testing::scenarios().push_back({#NAME, scenario_##NAME});                         \
    return true;                                                                                  \
  }();                                                                                            \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_plain, plain, Family::cpu)                 \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_validate, validate, Family::cpu)           \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_adversary, adversary, Family::cpu)         \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_vulkan_plain, plain, Family::vulkan)       \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_vulkan_validate, validate, Family::vulkan) \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_vulkan_adversary, adversary,               \
                         Family::vulkan)                                                          \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_cuda_plain, plain, Family::cuda)           \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_cuda_validate, validate, Family::cuda)     \
  HOLDFAST_SCENARIO_TEST(RuntimeScenario, NAME, NAME##_cuda_adversary, adversary, Family::cuda)   \
  static void scenario_##NAME([[maybe_unused]] ::holdfast::testing::World& world)

// The same with kernels in the kernel language, on family_of_bodies(): KernelScenario.NAME_plain,
// NAME_validate and NAME_adversary.
#define KERNEL_SCENARIO(NAME)                                                                   \
  static void scenario_##NAME(::holdfast::testing::World& world);                               \
  HOLDFAST_SCENARIO_TEST(KernelScenario, NAME, NAME##_plain, plain, family_of_bodies())         \
  HOLDFAST_SCENARIO_TEST(KernelScenario, NAME, NAME##_validate, validate, family_of_bodies())   \
  HOLDFAST_SCENARIO_TEST(KernelScenario, NAME, NAME##_adversary, adversary, family_of_bodies()) \
  static void scenario_##NAME([[maybe_unused]] ::holdfast::testing::World& world)

// The same through the public API, with arrays: Scenario.NAME_plain, NAME_validate and
// NAME_adversary.
#define ARRAY_SCENARIO(NAME)                                                              \
  static void scenario_##NAME(::holdfast::testing::World& world);                         \
  HOLDFAST_SCENARIO_TEST(Scenario, NAME, NAME##_plain, plain, family_of_bodies())         \
  HOLDFAST_SCENARIO_TEST(Scenario, NAME, NAME##_validate, validate, family_of_bodies())   \
  HOLDFAST_SCENARIO_TEST(Scenario, NAME, NAME##_adversary, adversary, family_of_bodies()) \
  static void scenario_##NAME([[maybe_unused]] ::holdfast::testing::World& world)

#define HOLDFAST_SCENARIO_TEST(SUITE, NAME, TEST_NAME, MODE, FAMILY)                           \
  TEST(SUITE, TEST_NAME) {                                                                     \
    ::holdfast::testing::run_scenario(scenario_##NAME, ::holdfast::testing::World::Mode::MODE, \
                                      ::holdfast::testing::FAMILY);                            \
  }
