#include "holdfast/hal/close_once.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::hal {
namespace {

using ::testing::HasSubstr;

TEST(CloseOnce, the_first_closes_and_all_others_get_its_report) {
  CloseOnce close;
  EXPECT_FALSE(close.begun());
  ASSERT_FALSE(close.begin("the device")) << "this call is the one that closes";
  EXPECT_TRUE(close.begun());
  close.finish({3, "three lists were left"});
  for (const bool may_wait : {true, false}) {
    const auto report = close.begin("the device", may_wait);
    ASSERT_TRUE(report) << "a second call would close again";
    EXPECT_EQ(report->lists_left, 3U);
    EXPECT_EQ(report->details, "three lists were left");
  }
}

TEST(CloseOnce, the_task_that_closes_is_told_so_instead_of_waiting_for_itself) {
  CloseOnce close;
  ASSERT_FALSE(close.begin("the device"));
  const auto report = close.begin("the device");
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->clean());
  EXPECT_THAT(report->details, HasSubstr("the device is being closed"));
}

}  // namespace
}  // namespace holdfast::hal
