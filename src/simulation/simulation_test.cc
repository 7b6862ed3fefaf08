#include "holdfast/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/task_local.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::simulation {
namespace {

using ::testing::HasSubstr;

Outcome with_seed(uint64_t seed, const std::function<void()>& body) {
  SeededDriver driver(seed);
  return simulate(driver, body);
}

// Two tasks that each read, give way, and write one more: an update is lost where they interleave.
int count_without_a_lock() {
  int counter = 0;
  const auto add = [&] {
    const int before = counter;
    sync::switch_point("between read and write");
    counter = before + 1;
  };
  sync::Thread a("a", add);
  sync::Thread b("b", add);
  a.join();
  b.join();
  return counter;
}

TEST(Simulation, a_body_runs_to_its_end) {
  bool done = false;
  const Outcome outcome = with_seed(1, [&] { done = true; });
  EXPECT_TRUE(done);
  EXPECT_EQ(outcome.ending, Ending::finished);
}

TEST(Simulation, seeds_find_both_outcomes_of_a_race) {
  std::set<int> results;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    with_seed(seed, [&] { results.insert(count_without_a_lock()); });
  }
  EXPECT_EQ(results, (std::set<int>{1, 2}));
}

TEST(Simulation, the_same_seed_gives_the_same_schedule) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    int first_result = 0;
    int second_result = 0;
    const Outcome first = with_seed(seed, [&] { first_result = count_without_a_lock(); });
    const Outcome second = with_seed(seed, [&] { second_result = count_without_a_lock(); });
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.choices, second.choices);
    EXPECT_EQ(first_result, second_result);
  }
}

// The literal was computed once; another machine or build must find the same.
TEST(Simulation, the_digest_of_a_seed_is_the_same_everywhere) {
  EXPECT_EQ(with_seed(7, [] { (void)count_without_a_lock(); }).digest, 10868568913124820245U);
}

TEST(Simulation, a_schedule_written_down_can_be_replayed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome first = with_seed(seed, [] { (void)count_without_a_lock(); });
    Deviations replay(parse_choices(to_string(first.choices)));
    const Outcome second = simulate(replay, [] { (void)count_without_a_lock(); });
    EXPECT_EQ(first.digest, second.digest);
  }
}

TEST(Simulation, a_mutex_excludes_in_every_schedule) {
  Exhaustive driver;
  do {
    simulate(driver, [] {
      sync::Mutex mutex;
      int inside = 0;
      const auto enter = [&] {
        const sync::Lock lock(mutex);
        EXPECT_EQ(++inside, 1);
        sync::switch_point("inside");
        --inside;
      };
      sync::Thread a("a", enter);
      sync::Thread b("b", enter);
    });
  } while (driver.next());
  EXPECT_GT(driver.classes(), 1U);
}

TEST(Simulation, a_deadlock_is_a_report_with_every_task_s_position) {
  bool found = false;
  for (uint64_t seed = 1; seed <= 100 && !found; ++seed) {
    const Outcome outcome = with_seed(seed, [] {
      sync::Mutex one(sync::LockOrder::unchecked);
      sync::Mutex two(sync::LockOrder::unchecked);
      const auto take = [](sync::Mutex& first, sync::Mutex& second) {
        const sync::Lock a(first);
        const sync::Lock b(second);
      };
      sync::Thread x("forwards", [&] { take(one, two); });
      sync::Thread y("backwards", [&] { take(two, one); });
    });
    if (outcome.ending != Ending::deadlock) continue;
    found = true;
    EXPECT_THAT(outcome.report, HasSubstr("task 'forwards' is at lock (src/simulation/"));
    EXPECT_THAT(outcome.report, HasSubstr("which task 'backwards' holds"));
    EXPECT_THAT(outcome.report, HasSubstr("task 'main' is at join"));
  }
  EXPECT_TRUE(found);
}

TEST(Simulation, a_lost_wake_up_is_a_deadlock) {
  bool found = false;
  for (uint64_t seed = 1; seed <= 100 && !found; ++seed) {
    const Outcome outcome = with_seed(seed, [] {
      sync::Mutex mutex;
      sync::Condition changed;
      bool ready = false;
      sync::Thread waiter("waiter", [&] {
        sync::Lock lock(mutex);
        changed.wait(lock, [&] { return ready; });
      });
      changed.notify_all();  // before the change: nobody is told of it
      const sync::Lock lock(mutex);
      ready = true;
    });
    found = outcome.ending == Ending::deadlock;
  }
  EXPECT_TRUE(found);
}

TEST(Simulation, time_stands_still_until_nothing_else_can_happen) {
  Deviations driver;
  simulate(driver, [] {
    sync::Mutex mutex;
    sync::Condition changed;
    const sync::TimePoint start = sync::now();
    sync::Lock lock(mutex);
    EXPECT_FALSE(changed.wait_until(lock, sync::Deadline::after(std::chrono::hours(10)),
                                    [] { return false; }));
    EXPECT_EQ(sync::now() - start, std::chrono::hours(10));
  });
}

TEST(Simulation, tasks_that_only_look_at_each_other_are_reported_as_endless) {
  Deviations driver;
  const Outcome outcome = simulate(driver, [] {
    for (;;) sync::relax(0);
  });
  EXPECT_EQ(outcome.ending, Ending::endless);
  EXPECT_THAT(outcome.report, HasSubstr("task 'main' is at look again"));
}

TEST(Simulation, a_task_that_looks_for_something_lets_the_others_do_it) {
  Deviations driver;
  const Outcome outcome = simulate(driver, [] {
    bool set = false;
    sync::Thread other("other", [&] { set = true; });
    while (!set) sync::relax(0);
  });
  EXPECT_EQ(outcome.ending, Ending::finished);
}

const sync::TaskLocalPointer<int> kLocal;

TEST(Simulation, each_task_has_its_own_locals_and_exceptions) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    with_seed(seed, [] {
      const auto body = [](int mine) {
        kLocal.set(&mine);
        try {
          throw UsageError(std::to_string(mine));
        } catch (const UsageError& error) {
          sync::switch_point("while handling an exception");
          try {
            throw UsageError("inner");
          } catch (const UsageError&) {
            sync::switch_point("while handling another one");
          }
          EXPECT_EQ(error.what(), std::to_string(mine));
        }
        EXPECT_EQ(*kLocal.get(), mine);
      };
      sync::Thread a("a", [&] { body(1); });
      sync::Thread b("b", [&] { body(2); });
    });
  }
}

TEST(Simulation, an_injection_happens_before_its_step) {
  int at = -1;
  Deviations driver;
  int steps = 0;
  simulate(driver,
           [&] {
             for (; steps < 10; ++steps) sync::switch_point("step");
           },
           {{5, "fault", [&] { at = steps; }}});
  EXPECT_NE(at, -1);
}

TEST(Simulation, a_simulation_inside_another_is_refused) {
  Deviations outer;
  simulate(outer, [] {
    Deviations inner;
    EXPECT_THROW(simulate(inner, [] {}), UsageError);
  });
}

TEST(Choices, what_cannot_be_read_is_refused) {
  EXPECT_EQ(parse_choices("default"), Deviations::Choices{});
  EXPECT_EQ(parse_choices("12.1+40.2"), (Deviations::Choices{{12, 1}, {40, 2}}));
  for (const char* bad : {"", "x", "1", "1.", "1.2+", "1.2,3.4", "-1.2"}) {
    EXPECT_THROW(parse_choices(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace holdfast::simulation
