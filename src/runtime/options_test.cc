#include "holdfast/runtime/options.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "holdfast/base/error.h"

namespace holdfast::runtime {
namespace {

class OptionsFromEnvironment : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~OptionsFromEnvironment() override {
    ::unsetenv("HOLDFAST_MEMORY_LIMIT");    // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("HOLDFAST_DEFERRED_LIMIT");  // NOLINT(concurrency-mt-unsafe)
  }
};

TEST_F(OptionsFromEnvironment, unset_variables_leave_the_defaults) {
  const Options options = Options::from_environment();
  EXPECT_EQ(options.memory_limit, Options().memory_limit);
  EXPECT_EQ(options.deferred_limit, Options().deferred_limit);
}

TEST_F(OptionsFromEnvironment, limits_are_read_with_their_units) {
  set("HOLDFAST_MEMORY_LIMIT", "2GiB");
  set("HOLDFAST_DEFERRED_LIMIT", "64M");
  const Options options = Options::from_environment();
  EXPECT_EQ(options.memory_limit, 2_GiB);
  EXPECT_EQ(options.deferred_limit, 64_MiB);
}

TEST_F(OptionsFromEnvironment, a_value_that_is_no_size_is_refused_by_name) {
  set("HOLDFAST_MEMORY_LIMIT", "plenty");
  try {
    Options::from_environment();
    FAIL() << "it was taken";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("HOLDFAST_MEMORY_LIMIT"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'plenty'"));
  }
}

}  // namespace
}  // namespace holdfast::runtime
