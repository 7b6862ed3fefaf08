#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/simulation/simulation.h"

namespace holdfast::simulation {

// One way for a program to go: who decides, and what goes wrong.
struct Variant {
  uint64_t seed = 1;
  // Instead of the seed.
  std::optional<Deviations::Choices> schedule;
  // As the program understands them: "alloc@3".
  std::vector<std::string> faults;
};
// "seed=7,faults=alloc@3+submit@7" or "schedule=12.1+40.2"; UsageError says what cannot be read.
Variant parse_variant(std::string_view text);
std::string to_string(const Variant& variant);
// The line that repeats it: "HOLDFAST_ADVERSARY=seed=7,faults=alloc@3", safe in a shell.
std::string replay_line(const Variant& variant);

// What came of one run.
struct Result {
  Outcome outcome;
  std::string failure;  // empty: nothing to complain about
};
// Simulates the program once. Must be the same program every time.
using Program =
    std::function<Result(Driver& driver, const std::vector<std::string>& faults, bool trace)>;

Result run_variant(const Program& program, const Variant& variant, bool trace = false);

struct Finding {
  Variant found;
  Variant shortest;  // the shortest that was found to fail as well
  Result result;     // of the shortest
  uint64_t shrink_runs = 0;
  bool repeats = true;  // false: the same seed did not fail again
};
// For people: what failed, the lines that replay it, the steps of the shortest schedule.
std::string to_string(const Finding& finding);

// Takes faults and decisions away, as long as the program still fails. Bounded in runs.
Finding shrink(const Program& program, const Variant& failing, uint64_t max_runs = 400);

struct Exploration {
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t digest = 0;  // of all schedules
  std::optional<Finding> finding;
};
// Which seeds to try: first, first + stride, ...
struct Seeds {
  uint64_t first = 1;
  uint64_t count = 100;
  uint64_t stride = 1;
};
// Until all have run or one fails; that one is shrunk. `faults_for` says what goes wrong under a
// seed.
Exploration explore(const Program& program, const Seeds& seeds,
                    const std::function<std::vector<std::string>(uint64_t seed)>& faults_for);

}  // namespace holdfast::simulation
