#include "holdfast/base/sync/lock_order.h"

#include <gtest/gtest.h>

#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

class LockOrderTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef HOLDFAST_LOCK_ORDER
    GTEST_SKIP() << "this build does not check the order of locks";
#endif
    // The process that dies is a copy of this one, started anew: forks beside threads are unsafe.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  Mutex recorder_{LockOrder::recorder};
  Mutex allocator_{LockOrder::allocator};
  Mutex alone_;
  Mutex also_alone_;
};

TEST_F(LockOrderTest, later_locks_may_be_taken_and_taken_again) {
  for (int i = 0; i < 2; ++i) {
    const Lock first(recorder_);
    const Lock second(allocator_);
    const Lock third(alone_);
  }
  Lock alone(alone_);
  alone.unlock();
  const Lock earlier(allocator_);
  alone.lock();
  EXPECT_TRUE(alone.owns()) << "nothing ended the process";
}

TEST_F(LockOrderTest, an_earlier_lock_after_a_later_one_ends_the_process_and_names_both) {
  EXPECT_DEATH(
      {
        const Lock later(allocator_);
        const Lock earlier(recorder_);
      },
      "lock_order_test.cc.*takes a recorder's lock .* while the task holds the allocator's lock");
}

TEST_F(LockOrderTest, two_of_one_order_end_the_process) {
  EXPECT_DEATH(
      {
        const Lock one(alone_);
        const Lock other(also_alone_);
      },
      "takes a lock that is taken alone .* while the task holds a lock that is taken alone");
}

TEST_F(LockOrderTest, histories_may_be_taken_together_by_ascending_place) {
  Mutex third(LockOrder::history, 3);
  Mutex fifth(LockOrder::history, 5);
  {
    const Lock one(third);
    const Lock other(fifth);
    const Lock below(allocator_);
  }
  EXPECT_DEATH(
      {
        const Lock one(fifth);
        const Lock other(third);
      },
      "takes a history's lock \\(place 3\\) while the task holds a history's lock");
}

TEST_F(LockOrderTest, a_history_that_was_given_back_does_not_count_beside_one_that_is_held) {
  Mutex third(LockOrder::history, 3);
  Mutex fifth(LockOrder::history, 5);
  Lock one(third);
  Lock other(fifth);
  other.unlock();
  EXPECT_DEATH(const Lock earlier(recorder_), "holds a history's lock");
  other.lock();
  one.unlock();
  EXPECT_DEATH(const Lock again(third), "holds a history's lock");
}

TEST_F(LockOrderTest, a_wait_for_a_change_with_another_lock_held_ends_the_process) {
  Condition changed;
  EXPECT_DEATH(
      {
        const Lock other(allocator_);
        Lock lock(alone_);
        changed.wait(lock, [] { return true; });
      },
      "waits for a change under .* while the task holds the allocator's lock");
}

TEST_F(LockOrderTest, what_one_task_holds_is_nothing_to_another) {
  const Lock later(allocator_);
  bool taken = false;
  Thread("other", [&] {
    const Lock earlier(recorder_);
    taken = true;
  });
  EXPECT_TRUE(taken);
}

TEST(LockWaits, only_a_mutex_that_is_taken_counts) {
  Mutex mutex;
  const uint64_t before = lock_waits();
  { const Lock lock(mutex); }
  EXPECT_EQ(lock_waits(), before);
  Lock lock(mutex);
  Thread waiter("waiter", [&] { const Lock mine(mutex); });
  while (lock_waits() == before) relax(0);
  lock.unlock();
  EXPECT_EQ(lock_waits(), before + 1);
}

}  // namespace
}  // namespace holdfast::sync
