#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/simulation/driver.h"
#include "holdfast/simulation/fiber.h"

namespace holdfast::simulation {

// Something done by a task of its own right before the n-th step (counted from one): a fault that
// no device makes, such as another task's trim.
struct Injection {
  uint64_t step = 0;
  std::string name;
  std::function<void()> action;
};

struct Options {
  // Keep a line for every step; costs several times the run itself.
  bool trace = false;
  // A run that takes more steps than this goes round in circles.
  uint64_t max_steps = 1'000'000;
};

enum class Ending { finished, deadlock, endless };

struct Outcome {
  Ending ending = Ending::finished;
  // Deadlock and endless: every task, and where it stands.
  std::string report;
  // Of the whole schedule: who acted, in which order, and every fault. The same on every machine.
  uint64_t digest = 0;
  uint64_t steps = 0;
  // Every decision that was not the default: replayed by Deviations.
  Deviations::Choices choices;
  uint64_t decisions = 0;
  std::vector<std::string> trace;
};

// Runs `body` as the first task of a simulated host, with everything of base/sync replaced: threads
// are fibers, time stands still until nothing else can happen or the driver lets it pass, and the
// driver decides every step. Returns when all tasks have ended, or when none can go on; what they
// have on their stacks is then left as it is. An exception that leaves a task is reported as
// std::terminate would. One simulation at a time in a process (UsageError), since fibers are
// pooled.
Outcome simulate(Driver& driver, const std::function<void()>& body,
                 std::vector<Injection> injections = {}, const Options& options = {});

}  // namespace holdfast::simulation
