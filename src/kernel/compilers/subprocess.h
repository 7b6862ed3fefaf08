#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/clock.h"

namespace holdfast::kernel {

// Longer than any compilation takes, on a machine that is busy as well; whoever waits for one that
// hangs learns of it.
constexpr sync::Duration kSubprocessLimit = std::chrono::minutes(5);

struct Subprocess {
  std::vector<std::string> command{};      // the program's path, then its arguments
  std::string folder{};                    // in which it runs
  std::vector<std::string> environment{};  // "NAME=value"
  sync::Duration limit = kSubprocessLimit;
};

struct SubprocessResult {
  // Of the exit; none where a signal ended it, or where the application took the status away.
  std::optional<int> status{};
  int signal = 0;        // that ended it
  std::string output{};  // stderr, of which the first mebibyte is kept
};

// Runs a program to its end, without a shell and in a process group of its own; it reads nothing,
// and what it writes to stdout is dropped. Processes that it leaves behind are not waited for,
// whatever they hold open. The failure, ErrorCode::environment, says why it could not be started,
// or that it went past its limit, where its group is killed; ErrorCode::closed after
// end_subprocesses().
Result<SubprocessResult> run(const Subprocess& process);

// Kills all that run() is running, with their groups, and lets it start no more: the process ends,
// and nobody takes what they make.
void end_subprocesses() noexcept;

// The environment of this process for a tool whose outcome must not depend on it: messages in plain
// English, temporary files in the folder it runs in, and nothing that adds paths or libraries.
std::vector<std::string> tool_environment();

// Where PATH has the program, or the name itself where it is a path; absolute, and empty where
// nothing can be executed there.
std::string find_program(const std::string& name);

}  // namespace holdfast::kernel
