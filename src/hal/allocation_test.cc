#include "holdfast/hal/allocation.h"

#include <gtest/gtest.h>

namespace holdfast::hal {
namespace {

constexpr uint64_t kKept = (uint64_t{1} << 40) - 2;  // the largest id that is kept as it is

TEST(LastUse, tells_lists_and_waves_apart) {
  for (const uint64_t id : {uint64_t{1}, uint64_t{77}, kKept}) {
    const LastUse use({id}, 5);
    EXPECT_TRUE(use.in({id})) << id;
    EXPECT_FALSE(use.in({id - 1})) << id;
    EXPECT_FALSE(use.in({id + 1})) << id;
    EXPECT_TRUE(use.reaches(5));
    EXPECT_TRUE(use.reaches(4));
    EXPECT_FALSE(use.reaches(6));
  }
  EXPECT_FALSE(LastUse().in({1}));
  EXPECT_FALSE(LastUse().in({}));
}

TEST(LastUse, a_wave_too_large_to_be_kept_reaches_every_wave) {
  EXPECT_TRUE(LastUse({7}, LastUse::kAnyWave - 1).reaches(LastUse::kAnyWave - 1));
  EXPECT_FALSE(LastUse({7}, LastUse::kAnyWave - 2).reaches(LastUse::kAnyWave - 1));
  EXPECT_TRUE(LastUse({7}, LastUse::kAnyWave).reaches(0xffffffff));
  EXPECT_TRUE(LastUse({7}, LastUse::kAnyWave + 1).reaches(0xffffffff));
  EXPECT_TRUE(LastUse({7}, LastUse::kAnyWave + 1).in({7}));
}

TEST(LastUse, in_a_list_whose_id_is_too_large_to_be_kept_asks_for_a_barrier_in_all_such_lists) {
  for (const uint64_t id : {kKept + 1, kKept + 2, (uint64_t{1} << 40) + 3, ~uint64_t{0}}) {
    const LastUse use({id}, 1);
    EXPECT_TRUE(use.in({id})) << id;
    EXPECT_TRUE(use.reaches(1)) << id;
    EXPECT_TRUE(use.reaches(1000)) << id;
    EXPECT_TRUE(use.in({kKept + 1}));
    EXPECT_TRUE(use.in({uint64_t{1} << 50}));
    EXPECT_FALSE(use.in({3})) << "a list with a small id is older than all of them";
    EXPECT_FALSE(use.in({kKept}));
  }
}

TEST(Allocation, says_that_it_has_no_name_instead_of_quoting_nothing) {
  EXPECT_EQ(Allocation::describe("weights", {17}, 64_KiB),
            "allocation 'weights' (id 17, 64.0 KiB)");
  EXPECT_EQ(Allocation::describe("", {17}, 64_KiB), "an unnamed allocation (id 17, 64.0 KiB)");
}

}  // namespace
}  // namespace holdfast::hal
