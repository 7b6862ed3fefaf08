#include "holdfast/base/sync/pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/patience_test.h"
#include "holdfast/base/sync/task_local.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// How often each index was visited; a chunk that is none counts as an error.
struct Visits {
  explicit Visits(uint64_t count) : times(count) {}
  std::vector<std::atomic<int>> times;
  std::atomic<int> errors{0};

  void operator()(uint64_t begin, uint64_t end, uint64_t grain) {
    if (begin >= end || end > times.size() || end - begin > grain) {
      ++errors;
      return;
    }
    for (uint64_t i = begin; i < end; ++i) ++times[i];
  }
  bool each_once() const {
    for (const auto& t : times) {
      if (t != 1) return false;
    }
    return errors == 0;
  }
};

TEST(WorkerPool, it_covers_every_index_exactly_once) {
  for (const unsigned helpers : {0U, 1U, 2U, 5U}) {
    WorkerPool pool("pool", helpers);
    EXPECT_EQ(pool.helpers(), helpers);
    for (const uint64_t count : {0U, 1U, 2U, 3U, 7U, 64U, 100U, 1001U}) {
      for (const uint64_t grain : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{64},
                                   uint64_t{1000}, uint64_t{5000}, kMax - 1, kMax}) {
        Visits visits(count);
        pool.run(count, grain, [&](uint64_t begin, uint64_t end) { visits(begin, end, grain); });
        EXPECT_TRUE(visits.each_once())
            << helpers << " helpers, count " << count << ", grain " << grain;
      }
    }
  }
}

TEST(WorkerPool, an_empty_range_calls_nobody) {
  WorkerPool pool("pool", 2);
  int calls = 0;
  pool.run(0, 4, [&](uint64_t, uint64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST(WorkerPool, without_helpers_it_runs_on_the_caller) {
  static const TaskLocalPointer<int> kMark;
  int mark = 0;
  const TaskLocalPointer<int>::Scope scope(kMark, &mark);
  WorkerPool pool("pool", 0);
  bool all_here = true;
  pool.run(10, 1, [&](uint64_t, uint64_t) { all_here = all_here && kMark.get() == &mark; });
  EXPECT_TRUE(all_here);
}

TEST(WorkerPool, helpers_work_beside_the_caller) {
  WorkerPool pool("pool", 2);
  Mutex mutex;  // guards inside
  Condition changed;
  int inside = 0;
  bool together = true;
  pool.run(3, 1, [&](uint64_t, uint64_t) {
    Lock lock(mutex);
    ++inside;
    changed.notify_all();
    together = changed.wait_until(lock, patience(), [&] { return inside == 3; }) && together;
  });
  EXPECT_TRUE(together) << "three chunks, three threads, all inside at once";
}

TEST(WorkerPool, writes_of_the_body_are_visible_when_run_returns) {
  WorkerPool pool("pool", 3);
  for (uint64_t round = 1; round <= 50; ++round) {
    std::vector<uint64_t> squares(500);
    pool.run(squares.size(), 7, [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) squares[i] = round * i * i;
    });
    for (uint64_t i = 0; i < squares.size(); ++i) ASSERT_EQ(squares[i], round * i * i);
  }
}

TEST(WorkerPool, calls_from_several_threads_at_once_are_each_complete) {
  WorkerPool pool("pool", 2);
  std::atomic<int> incomplete{0};
  {
    std::vector<Thread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back("caller", [&] {
        for (uint64_t round = 1; round <= 40; ++round) {
          Visits visits(round * 5);
          pool.run(round * 5, 3, [&](uint64_t begin, uint64_t end) { visits(begin, end, 3); });
          if (!visits.each_once()) ++incomplete;
        }
      });
    }
  }
  EXPECT_EQ(incomplete, 0);
}

TEST(WorkerPool, a_call_whose_helpers_are_busy_elsewhere_finishes_by_itself) {
  WorkerPool pool("pool", 1);
  Mutex mutex;  // guards inside and released
  Condition changed;
  int inside = 0;
  bool released = false;
  Thread busy("busy", [&] {
    pool.run(2, 1, [&](uint64_t, uint64_t) {
      Lock lock(mutex);
      ++inside;
      changed.notify_all();
      changed.wait_until(lock, patience(), [&] { return released; });
    });
  });
  {
    Lock lock(mutex);
    ASSERT_TRUE(changed.wait_until(lock, patience(), [&] { return inside == 2; }));
  }
  Visits visits(20);
  pool.run(20, 1, [&](uint64_t begin, uint64_t end) { visits(begin, end, 1); });
  EXPECT_TRUE(visits.each_once());
  const Lock lock(mutex);
  released = true;
  changed.notify_all();
}

TEST(WorkerPool, a_helper_leaves_a_long_call_for_one_that_has_none) {
  WorkerPool pool("pool", 1);
  Mutex mutex;  // guards the two below
  Condition changed;
  bool short_was_helped = false;
  bool long_is_helped = false;
  // The long call's chunks end as soon as they may: only its helper goes on to others.
  Thread long_caller("long", [&] {
    const void* const caller = this_task();
    pool.run(300'000, 1, [&](uint64_t, uint64_t) {
      Lock lock(mutex);
      if (this_task() != caller) {
        long_is_helped = true;
        changed.notify_all();
        return;
      }
      changed.wait_until(lock, patience(), [&] { return short_was_helped; });
    });
  });
  {
    Lock lock(mutex);
    ASSERT_TRUE(changed.wait_until(lock, patience(), [&] { return long_is_helped; }));
  }
  const void* const caller = this_task();
  pool.run(2, 1, [&](uint64_t, uint64_t) {
    Lock lock(mutex);
    if (this_task() != caller) {
      short_was_helped = true;
      changed.notify_all();
      return;
    }
    EXPECT_TRUE(changed.wait_until(lock, patience(), [&] { return short_was_helped; }));
  });
}

TEST(WorkerPool, no_more_helpers_come_than_are_wanted) {
  WorkerPool pool("pool", 3);
  const void* const caller = this_task();
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<int> foreign{0};
    const auto body = [&](uint64_t, uint64_t) {
      const int now = ++inside;
      for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
      }
      if (this_task() != caller) ++foreign;
      --inside;
    };
    pool.run(200, 1, body, 1);
    EXPECT_LE(most, 2);
    foreign = 0;
    pool.run(20, 1, body, 0);
    EXPECT_EQ(foreign, 0);
  }
}

// In a process of its own, since what follows a destructor that did not wait is undefined.
TEST(WorkerPoolDeathTest, its_destructor_waits_for_a_run_under_way) {
  const auto destroy_during_run = [] {
    static const TaskLocalPointer<int> kCaller;
    int mark = 0;
    const TaskLocalPointer<int>::Scope scope(kCaller, &mark);
    auto pool = std::make_unique<WorkerPool>("pool", 1);
    WorkerPool& alive = *pool;
    Mutex mutex;  // guards inside and destroyed
    Condition changed;
    bool inside = false;
    bool destroyed = false;
    Thread destroyer("destroyer", [&] {
      {
        Lock lock(mutex);
        changed.wait(lock, [&] { return inside; });
      }
      pool.reset();
      const Lock lock(mutex);
      destroyed = true;
      changed.notify_all();
    });
    alive.run(2, 1, [&](uint64_t, uint64_t) {
      Lock lock(mutex);
      if (kCaller.get() == nullptr) {  // the helper leaves the other chunk to the caller
        changed.wait(lock, [&] { return inside; });
        return;
      }
      inside = true;
      changed.notify_all();
      // Time to err.
      const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
      if (changed.wait_until(lock, soon, [&] { return destroyed; })) _exit(1);
    });
    destroyer.join();
    _exit(0);
  };
  EXPECT_EXIT(destroy_during_run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace holdfast::sync
