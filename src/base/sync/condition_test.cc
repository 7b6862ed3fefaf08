#include "holdfast/base/sync/condition.h"

#include <gtest/gtest.h>

#include <vector>

#include "holdfast/base/sync/patience_test.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

// Far beyond what any step takes: a wait that gets there has failed.
Deadline passed() { return Deadline::after(std::chrono::seconds(-1)); }

struct Baton {
  Mutex mutex;  // guards turn
  Condition changed;
  int turn = 0;

  void pass_to(int next) {
    {
      const Lock lock(mutex);
      turn = next;
    }
    changed.notify_all();
  }
};

TEST(Condition, a_wait_ends_when_its_predicate_holds) {
  Baton baton;
  Thread other("other", [&] { baton.pass_to(1); });
  Lock lock(baton.mutex);
  baton.changed.wait(lock, [&] { return baton.turn == 1; });
  EXPECT_TRUE(lock.owns());
  EXPECT_EQ(baton.turn, 1);
}

TEST(Condition, a_wake_up_without_the_predicate_ends_no_wait) {
  Baton baton;
  Thread other("other", [&] {
    Lock lock(baton.mutex);
    baton.changed.wait(lock, [&] { return baton.turn == 2; });
    baton.turn = 3;
    baton.changed.notify_all();
  });
  baton.pass_to(1);
  baton.pass_to(2);
  Lock lock(baton.mutex);
  EXPECT_TRUE(baton.changed.wait_until(lock, patience(), [&] { return baton.turn == 3; }));
}

TEST(Condition, a_wait_past_its_deadline_says_that_the_predicate_does_not_hold) {
  Baton baton;
  Lock lock(baton.mutex);
  EXPECT_FALSE(baton.changed.wait_until(lock, passed(), [] { return false; }));
  EXPECT_TRUE(lock.owns());
}

TEST(Condition, a_predicate_that_holds_outweighs_a_deadline_that_has_passed) {
  Baton baton;
  Lock lock(baton.mutex);
  EXPECT_TRUE(baton.changed.wait_until(lock, passed(), [] { return true; }));
}

TEST(Condition, a_wait_does_not_give_up_before_its_deadline) {
  Baton baton;
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(2));
  Lock lock(baton.mutex);
  EXPECT_FALSE(baton.changed.wait_until(lock, deadline, [] { return false; }));
  EXPECT_TRUE(deadline.passed());
}

TEST(Condition, a_wait_until_never_lasts_until_the_predicate_holds) {
  Baton baton;
  Thread other("other", [&] { baton.pass_to(1); });
  Lock lock(baton.mutex);
  EXPECT_TRUE(baton.changed.wait_until(lock, Deadline::never(), [&] { return baton.turn == 1; }));
  EXPECT_EQ(baton.turn, 1);
}

TEST(Condition, two_threads_hand_a_baton_to_and_fro) {
  constexpr int kRounds = 200;
  Baton baton;
  const auto play = [&](int mine) {
    for (int i = 0; i < kRounds; ++i) {
      Lock lock(baton.mutex);
      ASSERT_TRUE(
          baton.changed.wait_until(lock, patience(), [&] { return baton.turn % 2 == mine; }));
      ++baton.turn;
      baton.changed.notify_one();
    }
  };
  Thread other("other", [&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(baton.turn, 2 * kRounds);
}

TEST(Condition, notify_all_wakes_everybody) {
  Baton baton;
  int awake = 0;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("sleeper", [&] {
        Lock lock(baton.mutex);
        if (baton.changed.wait_until(lock, patience(), [&] { return baton.turn == 1; })) ++awake;
      });
    }
    baton.pass_to(1);
  }
  EXPECT_EQ(awake, 4);
}

}  // namespace
}  // namespace holdfast::sync
