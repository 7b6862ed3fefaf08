#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>

#include "holdfast/base/ablation.h"
#include "holdfast/testing/scenario.h"

namespace holdfast::testing {

// A safety that can be taken away, and what shows that it is missing.
struct AblationCase {
  Ablation ablation;
  const char* stands_for;  // the public bug
  const char* scenario;    // the one that kills it
  const char* says;        // part of what it then says
};
std::span<const AblationCase> ablation_cases();
// For GoogleTest, which would print bytes.
inline void PrintTo(const AblationCase& ablation, std::ostream* out) {
  *out << ablation_token(ablation.ablation);
}

// What became of a scenario with a safety taken away.
struct Kill {
  bool killed = false;
  uint64_t schedules = 0;   // until the first that failed
  uint64_t digest = 0;      // of that one
  std::string sentence;     // what the validator, the scenario or the scheduler said, without ids
  std::string replay_line;  // of the shortest, as a whole command
  std::string skipped;      // why the scenario cannot run on that family; empty: it can
};
Kill kill(const AblationCase& ablation, uint64_t max_schedules = 2000, Family family = Family::cpu);

}  // namespace holdfast::testing
