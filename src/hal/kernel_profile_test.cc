#include "holdfast/hal/kernel_profile.h"

#include <gtest/gtest.h>

namespace holdfast::hal {
namespace {

using std::chrono::microseconds;

TEST(KernelProfile, adds_up_by_kernel_and_lists_the_longest_first) {
  KernelProfile profile;
  profile.enable(true);
  profile.add("short", 1, microseconds(1));
  profile.add("long", 1, microseconds(5));
  profile.add("long", 0, microseconds(2));  // another thread's share of the same dispatch
  profile.add("short", 1, microseconds(3));
  const auto times = profile.times();
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].kernel, "long");
  EXPECT_EQ(times[0].dispatches, 1U);
  EXPECT_EQ(times[0].total, microseconds(7));
  EXPECT_EQ(times[1].kernel, "short");
  EXPECT_EQ(times[1].dispatches, 2U);
  EXPECT_EQ(times[1].total, microseconds(4));
}

TEST(KernelProfile, switched_on_again_it_starts_afresh) {
  KernelProfile profile;
  EXPECT_FALSE(profile.enabled());
  profile.enable(true);
  profile.add("k", 1, microseconds(1));
  profile.enable(false);
  EXPECT_EQ(profile.times().size(), 1U);
  profile.enable(true);
  EXPECT_TRUE(profile.enabled());
  EXPECT_TRUE(profile.times().empty());
}

}  // namespace
}  // namespace holdfast::hal
