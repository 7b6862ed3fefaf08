#include "holdfast/testing/scenario.h"

#include <algorithm>

#include "holdfast/base/env.h"

namespace holdfast::testing {
namespace {

constexpr uint64_t kSchedules = 100;

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

void run_scenario(const ScenarioBody& body, World::Mode mode) {
  if (mode != World::Mode::adversary) {
    World world(mode);
    world.run([&] { body(world); });
    EXPECT_EQ(world.failure(), "");
    return;
  }
  const simulation::Program program = as_program(body);
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
  const uint64_t schedules = env::number("HOLDFAST_SCHEDULES").value_or(kSchedules);
  const simulation::Exploration done = simulation::explore(program, {1, schedules}, faults_for);
  if (done.finding) ADD_FAILURE() << simulation::to_string(*done.finding);
}

}  // namespace holdfast::testing
