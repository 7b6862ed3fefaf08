#include "holdfast/base/sync/clock.h"

#include <gtest/gtest.h>

namespace holdfast::sync {
namespace {

TEST(Deadline, never_does_not_pass) {
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_FALSE(Deadline::never().passed());
}

TEST(Deadline, a_moment_that_is_over_has_passed) {
  const TimePoint before = now();
  EXPECT_TRUE(Deadline::at(before).passed());
  EXPECT_FALSE(Deadline::at(before).is_never());
  EXPECT_EQ(Deadline::at(before).when(), before);
}

TEST(Deadline, a_moment_to_come_has_not_passed) {
  const Deadline later = Deadline::after(std::chrono::hours(1));
  EXPECT_FALSE(later.passed());
  EXPECT_FALSE(later.is_never());
}

TEST(Deadline, it_lies_its_duration_ahead) {
  const TimePoint before = now();
  const Deadline deadline = Deadline::after(std::chrono::hours(1));
  const TimePoint after = now();
  EXPECT_GE(deadline.when(), before + std::chrono::hours(1));
  EXPECT_LE(deadline.when(), after + std::chrono::hours(1));
}

TEST(Deadline, a_duration_too_long_to_represent_is_never) {
  EXPECT_TRUE(Deadline::after(Duration::max()).is_never());
  EXPECT_TRUE(Deadline::after(Duration::max() - std::chrono::nanoseconds(1)).is_never());
}

TEST(Deadline, a_negative_duration_has_passed) {
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds(-1)).passed());
  EXPECT_TRUE(Deadline::after(Duration::min()).passed()) << "it does not wrap around either";
}

TEST(Deadline, no_duration_at_all_has_passed) { EXPECT_TRUE(Deadline::after({}).passed()); }

TEST(Deadline, earlier_gives_the_one_that_passes_first) {
  const Deadline soon = Deadline::after(std::chrono::seconds(1));
  const Deadline late = Deadline::after(std::chrono::hours(1));
  EXPECT_EQ(earlier(soon, late).when(), soon.when());
  EXPECT_EQ(earlier(late, soon).when(), soon.when());
  EXPECT_EQ(earlier(late, Deadline::never()).when(), late.when());
  EXPECT_TRUE(earlier(Deadline::never(), Deadline::never()).is_never());
}

TEST(Clock, time_does_not_go_back) {
  const TimePoint first = now();
  EXPECT_LE(first, now());
}

}  // namespace
}  // namespace holdfast::sync
