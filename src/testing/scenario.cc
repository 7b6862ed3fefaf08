#include "holdfast/testing/scenario.h"

#include <algorithm>

#include "holdfast/base/env.h"

namespace holdfast::testing {
namespace {

// On a GPU each schedule opens a device, which takes longer than all else in it (5 ms on
// lavapipe).
constexpr uint64_t schedules_on(Family family) { return family == Family::cpu ? 100 : 20; }

}  // namespace

std::vector<Scenario>& scenarios() {
  static std::vector<Scenario> all;
  return all;
}

const Scenario* find_scenario(std::string_view name) {
  const auto found = std::find_if(scenarios().begin(), scenarios().end(),
                                  [&](const Scenario& s) { return s.name == name; });
  return found == scenarios().end() ? nullptr : &*found;
}

std::string adversary_test(std::string_view scenario, Family family) {
  return "RuntimeScenario." + std::string(scenario) +
         (family == Family::cpu ? "" : std::string("_") + to_string(family)) + "_adversary";
}

void run_scenario(const ScenarioBody& body, World::Mode mode, Family family) {
  if (const std::string why = why_no(family); !why.empty()) GTEST_SKIP() << why;
  if (mode != World::Mode::adversary) {
    World world(mode, {}, family);
    world.run([&] { body(world); });
    EXPECT_EQ(world.failure(), "");
    if (!world.skipped().empty()) GTEST_SKIP() << world.skipped();
    return;
  }
  const auto skipped = std::make_shared<std::string>();
  const simulation::Program program = as_program(body, family, skipped);
  if (const auto one = env::text("HOLDFAST_ADVERSARY")) {
    const simulation::Variant variant = simulation::parse_variant(*one);
    const simulation::Result result = simulation::run_variant(program, variant, true);
    for (const std::string& line : result.outcome.trace) std::printf("  %s\n", line.c_str());
    std::printf("digest %016llx, %llu steps\n",
                static_cast<unsigned long long>(result.outcome.digest),
                static_cast<unsigned long long>(result.outcome.steps));
    EXPECT_EQ(result.failure, "");
    return;
  }
  const uint64_t schedules = env::number("HOLDFAST_SCHEDULES").value_or(schedules_on(family));
  const simulation::Exploration done = simulation::explore(program, {1, schedules}, faults_for);
  if (done.finding) ADD_FAILURE() << simulation::to_string(*done.finding);
  if (!skipped->empty()) GTEST_SKIP() << *skipped;
}

}  // namespace holdfast::testing
