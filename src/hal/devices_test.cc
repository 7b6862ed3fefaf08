#include "holdfast/hal/devices.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace holdfast::hal {
namespace {

using testing::HasSubstr;

TEST(Devices, the_cpu_is_always_there) {
  const auto device = open_device("cpu").or_raise();
  EXPECT_EQ(device->info().name, "cpu");
  EXPECT_EQ(list_devices().front().name, "cpu");
}

TEST(Devices, every_call_opens_a_new_device) {
  EXPECT_NE(open_device("cpu").or_raise()->id(), open_device("cpu").or_raise()->id());
}

TEST(Devices, an_unknown_name_is_a_failure_that_lists_the_known_ones) {
  const auto opened = open_device("abacus");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.failure().code(), ErrorCode::usage);
  EXPECT_THAT(opened.failure().message(), HasSubstr("'abacus'"));
  EXPECT_THAT(opened.failure().message(), HasSubstr("cpu"));
}

TEST(Devices, the_default_is_what_the_variable_names) {
  ::setenv("HOLDFAST_DEVICE", "abacus", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto named = open_default_device();
  ::unsetenv("HOLDFAST_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(named.failure().message(), HasSubstr("'abacus'"));
  EXPECT_TRUE(open_default_device().ok());
}

}  // namespace
}  // namespace holdfast::hal
