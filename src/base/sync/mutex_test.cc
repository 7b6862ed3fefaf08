#include "holdfast/base/sync/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <type_traits>
#include <vector>

#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

bool is_free(const Mutex& mutex) { return mutex.is_free(); }

TEST(Mutex, it_is_held_as_long_as_its_lock_lives) {
  Mutex mutex;
  {
    const Lock lock(mutex);
    EXPECT_TRUE(lock.owns());
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, a_lock_may_step_outside_and_come_back) {
  Mutex mutex;
  Lock lock(mutex);
  lock.unlock();
  EXPECT_FALSE(lock.owns());
  EXPECT_TRUE(is_free(mutex));
  lock.lock();
  EXPECT_TRUE(lock.owns());
  EXPECT_FALSE(is_free(mutex));
}

TEST(Mutex, the_destructor_copes_with_a_lock_that_is_outside) {
  Mutex mutex;
  {
    Lock lock(mutex);
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, threads_exclude_each_other) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  Mutex mutex;
  int count = 0;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("counter", [&] {
        for (int i = 0; i < kRounds; ++i) {
          const Lock lock(mutex);
          ++count;
        }
      });
    }
  }
  EXPECT_EQ(count, kThreads * kRounds);
}

// Longer than anybody looks for it: those who wait are asleep by then, and each is woken.
TEST(Mutex, whoever_sleeps_for_it_is_woken) {
  constexpr int kThreads = 4;
  Mutex mutex;
  int count = 0;
  std::vector<Thread> threads;
  {
    const Lock lock(mutex);
    const uint64_t before = lock_waits();
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("sleeper", [&] {
        const Lock own(mutex);
        ++count;
      });
    }
    while (lock_waits() < before + kThreads) relax(0);
    for (unsigned i = 0; i < 200; ++i) relax(i);
  }
  threads.clear();
  EXPECT_EQ(count, kThreads);
  EXPECT_TRUE(mutex.is_free());
}

TEST(Guarded, it_makes_its_value_from_the_arguments) {
  Guarded<std::string> text(3, 'x');
  EXPECT_EQ(*text.lock(), "xxx");
  text.lock()->append("y");
  EXPECT_EQ(text.lock()->size(), 4U);
}

TEST(Guarded, a_constant_one_gives_no_way_to_change_its_value) {
  const Guarded<int> number(5);
  EXPECT_EQ(*number.lock(), 5);
  static_assert(std::is_same_v<decltype(*number.lock()), const int&>);
}

TEST(Guarded, others_wait_until_an_access_ends) {
  Guarded<int> number(0);
  std::atomic<bool> started{false};
  int seen = -1;
  Thread other;
  {
    const auto mine = number.lock();
    other = Thread("other", [&] {
      started = true;
      seen = *number.lock();
    });
    while (!spin_for(1000, [&] { return started.load(); })) {
    }
    *mine = 1;
    spin_for(1000, [] { return false; });  // time to err
    *mine = 2;
  }
  other.join();
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace holdfast::sync
