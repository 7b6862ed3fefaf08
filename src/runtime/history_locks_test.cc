#include "holdfast/runtime/history_locks.h"

#include <gtest/gtest.h>

#include <array>

#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/simulation/driver.h"
#include "holdfast/simulation/simulation.h"

namespace holdfast::runtime {
namespace {

class HistoryLocksTest : public ::testing::Test {
 protected:
  Ref<hal::Allocation> made_for(uint64_t lane) const {
    auto allocation = hal::Allocation::whole(device_->create_buffer({256_B}).or_raise());
    allocation->set_made_for(hal::LaneId{lane});
    return allocation;
  }
  static HistoryLocks::Set set_of(const HistoryLocks& locks,
                                  std::initializer_list<const hal::Allocation*> all) {
    HistoryLocks::Set set(locks);
    for (const hal::Allocation* allocation : all) set.add(*allocation);
    return set;
  }

  Ref<hal::Device> device_ = hal::CpuDevice::open({.queues = 1, .helpers = 0});
};

TEST_F(HistoryLocksTest, streams_with_memory_of_their_own_have_locks_of_their_own) {
  HistoryLocks locks;
  const auto a = made_for(1);
  const auto b = made_for(2);
  const sync::Lock lock(locks.of(*a));
  EXPECT_FALSE(locks.of(*made_for(1)).is_free());
  EXPECT_TRUE(locks.of(*b).is_free());
}

TEST_F(HistoryLocksTest, all_locks_of_a_set_are_held_once_and_given_back) {
  HistoryLocks locks;
  const auto a = made_for(1);
  const auto beside_a = made_for(1);
  const auto b = made_for(63);
  const auto nobodys = made_for(0);
  const int result =
      locks.with(set_of(locks, {b.get(), a.get(), beside_a.get(), nobodys.get()}), [&] {
        for (const auto& held : {a, b, nobodys}) EXPECT_FALSE(locks.of(*held).is_free());
        EXPECT_TRUE(locks.of(*made_for(2)).is_free());
        return 7;
      });
  EXPECT_EQ(result, 7);
  for (const auto& free : {a, b, nobodys}) EXPECT_TRUE(locks.of(*free).is_free());
}

TEST_F(HistoryLocksTest, which_streams_share_a_lock_does_not_depend_on_how_many_there_were_before) {
  for (const uint64_t before : {0U, 62U, 63U, 64U, 1000U}) {
    HistoryLocks locks(hal::LaneId{before});
    const auto nobodys = made_for(0);
    const sync::Lock lock(locks.of(*nobodys));
    for (uint64_t lane = before + 1; lane < before + 130; ++lane) {
      EXPECT_TRUE(locks.of(*made_for(lane)).is_free()) << lane << " after " << before;
    }
    const sync::Lock of_first(locks.of(*made_for(before + 1)));
    EXPECT_TRUE(locks.of(*made_for(before + 2)).is_free()) << before;
    EXPECT_FALSE(locks.of(*made_for(before + 64)).is_free()) << before;
  }
}

TEST_F(HistoryLocksTest, an_action_that_throws_gives_them_back) {
  HistoryLocks locks;
  const auto a = made_for(1);
  const auto b = made_for(2);
  EXPECT_THROW(locks.with(set_of(locks, {a.get(), b.get()}), []() -> int { throw 1; }), int);
  EXPECT_TRUE(locks.of(*a).is_free());
  EXPECT_TRUE(locks.of(*b).is_free());
}

TEST_F(HistoryLocksTest, crossed_sets_exclude_each_other_and_never_block_for_good) {
  const std::array all{made_for(5), made_for(1), made_for(3)};
  simulation::Exhaustive driver;
  do {
    const simulation::Outcome outcome = simulation::simulate(driver, [&] {
      HistoryLocks locks;
      int inside = 0;
      const auto enter = [&](const HistoryLocks::Set& set) {
        locks.with(set, [&] {
          EXPECT_EQ(++inside, 1);
          sync::switch_point("inside");
          return --inside;
        });
      };
      sync::Thread one("one", [&] { enter(set_of(locks, {all[0].get(), all[1].get()})); });
      sync::Thread two("two", [&] {
        enter(set_of(locks, {all[1].get(), all[0].get(), all[2].get()}));
      });
    });
    ASSERT_EQ(outcome.ending, simulation::Ending::finished) << outcome.report;
  } while (driver.next());
  EXPECT_GT(driver.classes(), 1U);
}

}  // namespace
}  // namespace holdfast::runtime
