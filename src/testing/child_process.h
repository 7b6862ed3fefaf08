#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

// For programs whose main() has several endings to show, each in a process of its own. A header
// alone: programs link no helpers of the tests.

namespace holdfast::testing {

struct ProcessCase {
  std::string name;
  std::function<int()> run;  // what main() returns
};

// A child that hangs is killed after so long. Far more than any needs, on a busy machine too.
inline constexpr unsigned kChildSeconds = 300;

// Calls fork() for each case. A child returns what its case returns, so that it leaves main as any
// process does; the parent returns how many children did not exit with 0. The caller returns from
// main either way, and has no threads.
inline int run_in_children(const std::vector<ProcessCase>& cases) {
  int wrong = 0;
  for (const ProcessCase& one : cases) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kChildSeconds);
      return one.run();
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
      std::fprintf(stderr, "%s: no child process\n", one.name.c_str());
      ++wrong;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
      std::fprintf(stderr, "%s: %s (wait status 0x%x)\n", one.name.c_str(),
                   hung ? "the process hung" : "the process did not exit with 0", status);
      ++wrong;
    }
  }
  return wrong;
}

}  // namespace holdfast::testing
