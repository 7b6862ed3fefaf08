#include "holdfast/base/sync/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "holdfast/base/error.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/thread.h"

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
      ::testing::ExitedWithCode(0), ::testing::HasSubstr("second.first."));
}

TEST(AtExitDeathTest, an_action_registered_by_an_action_still_runs) {
  EXPECT_EXIT(
      {
        say_at_exit("last.");
        at_exit([] { say_at_exit("late."); });
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), ::testing::HasSubstr("late.last."));
}

TEST(AtExitDeathTest, nothing_runs_after_an_immediate_exit) {
  EXPECT_EXIT(
      {
        say_at_exit("spoken");
        _exit(0);
      },
      ::testing::ExitedWithCode(0), ::testing::Not(::testing::HasSubstr("spoken")));
}

TEST(NoFork, a_fork_waits_for_other_threads_that_have_one) {
  if (has_thread_sanitizer())
    GTEST_SKIP() << "ThreadSanitizer takes the parent's threads for leaks of the child";
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  Thread other("other", [&] {
    const NoFork whole;
    inside = true;
    inside.notify_all();
    // Long enough for the fork to begin, if it does not wait.
    for (unsigned i = 0; i < 10000; ++i) relax(i);
    left = true;
  });
  inside.wait(false);
  EXPECT_EQ(in_child([&] { return left.load() ? 0 : 1; }), 0);
  other.join();
}

TEST(NoFork, a_fork_does_not_wait_for_its_own_thread) {
  const NoFork whole;
  const NoFork nested;
  EXPECT_EQ(in_child([] { return 0; }), 0);
}

TEST(NoFork, a_child_may_use_what_the_process_shares_and_fork_again) {
  ProcessGuarded<int> shared(0);
  std::atomic<bool> enough{false};
  Thread other("other", [&] {
    while (!enough) ++*shared.lock();
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(in_child([&] {
                alarm(300);  // a child that hangs is killed, and the test fails
                *shared.lock() = 7;
                return in_child([&] { return *shared.lock() == 7 ? 0 : 1; });
              }),
              0);
  }
  enough = true;
}

// What a thread raises while the process exits.
template <typename Raised>
[[noreturn]] void exit_while_a_thread_raises() {
  static std::thread worker;
  static std::atomic<bool> closed{false};
  at_exit([] {
    closed = true;
    closed.notify_all();
    worker.join();
    std::fputs("joined.", stderr);
  });
  worker = std::thread([] {
    closed.wait(false);
    throw Raised("it is closed");
  });
  std::exit(0);
}

TEST(AtExitDeathTest, a_closed_error_that_nobody_catches_ends_its_thread_alone) {
  if (has_sanitizer())
    GTEST_SKIP() << "what the thread had is never freed, and no sanitizer sees it end";
  EXPECT_EXIT(exit_while_a_thread_raises<ClosedError>(), ::testing::ExitedWithCode(0),
              ::testing::HasSubstr("joined."));
}

TEST(AtExitDeathTest, any_other_exception_ends_the_process_as_ever) {
  EXPECT_EXIT(exit_while_a_thread_raises<UsageError>(), ::testing::KilledBySignal(SIGABRT),
              ::testing::HasSubstr("it is closed"));
}

TEST(AtExitDeathTest, so_does_a_closed_error_of_the_exiting_thread) {
  EXPECT_EXIT(
      {
        at_exit([] { throw ClosedError("too late"); });
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGABRT), ::testing::HasSubstr("too late"));
}

TEST(AtExitDeathTest, a_closed_error_before_the_exit_ends_the_process_as_ever) {
  EXPECT_EXIT(
      {
        at_exit([] {});
        std::thread([] { throw ClosedError("early"); }).join();
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGABRT), ::testing::HasSubstr("early"));
}

int stale_handler_ran_first = 0;

TEST(AtExit, actions_of_a_forked_child_run_before_handlers_that_others_registered_in_its_parent) {
  at_exit([] {});  // in the parent, before the other's handler
  ASSERT_EQ(std::atexit([] { ++stale_handler_ran_first; }), 0);
  const pid_t child = fork();
  if (child == 0) {
    at_exit([] { _exit(stale_handler_ran_first == 0 ? 0 : 1); });
    std::exit(2);  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace holdfast::sync
