#include "holdfast/base/sync/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace holdfast::sync {
namespace {

// What `body` returns in a child process; -1 where that dies.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(ForkGeneration, a_child_is_one_generation_on) {
  const uint32_t here = fork_generation();
  EXPECT_EQ(in_child([&] { return static_cast<int>(fork_generation() - here); }), 1);
}

TEST(ForkGeneration, a_child_of_a_child_is_two_generations_on) {
  const uint32_t here = fork_generation();
  const auto grandchild = [&] { return static_cast<int>(fork_generation() - here); };
  EXPECT_EQ(in_child([&] { return in_child(grandchild); }), 2);
}

TEST(ForkGeneration, a_fork_leaves_the_parent_in_its_generation) {
  const uint32_t here = fork_generation();
  EXPECT_EQ(in_child([] { return 0; }), 0);
  EXPECT_EQ(fork_generation(), here);
}

void say_at_exit(const char* word) {
  at_exit([word] { std::fputs(word, stderr); });
}

TEST(AtExitDeathTest, actions_run_in_reverse_order_when_the_process_exits) {
  EXPECT_EXIT(
      {
        say_at_exit("first.");
        say_at_exit("second.");
        std::exit(0);
      },
      testing::ExitedWithCode(0), testing::HasSubstr("second.first."));
}

TEST(AtExitDeathTest, an_action_registered_by_an_action_still_runs) {
  EXPECT_EXIT(
      {
        say_at_exit("last.");
        at_exit([] { say_at_exit("late."); });
        std::exit(0);
      },
      testing::ExitedWithCode(0), testing::HasSubstr("late.last."));
}

TEST(AtExitDeathTest, nothing_runs_after_an_immediate_exit) {
  EXPECT_EXIT(
      {
        say_at_exit("spoken");
        _exit(0);
      },
      testing::ExitedWithCode(0), testing::Not(testing::HasSubstr("spoken")));
}

}  // namespace
}  // namespace holdfast::sync
