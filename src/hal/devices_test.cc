#include "holdfast/hal/devices.h"
#include "holdfast/testing/variable.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace holdfast::hal {
namespace {

using ::testing::HasSubstr;

using holdfast::testing::Variable;

std::string opened_as(const char* name) {
  const auto opened = open_device(name);
  return opened ? opened.value()->info().name : opened.failure().message();
}

TEST(Devices, the_cpu_is_always_there) {
  const Variable plain("HOLDFAST_VALIDATE", nullptr);
  EXPECT_EQ(opened_as("cpu"), "cpu");
  EXPECT_EQ(list_devices().front().name, "cpu");
}

TEST(Devices, wrappers_nest_and_take_options) {
  const Variable plain("HOLDFAST_VALIDATE", nullptr);
  EXPECT_EQ(opened_as("validate(cpu)"), "validate(cpu)");
  EXPECT_EQ(opened_as("adversary(cpu)"), "adversary(cpu,seed=1)");
  EXPECT_EQ(opened_as("validate(adversary(cpu,seed=7,faults=alloc@3+submit@7))"),
            "validate(adversary(cpu,seed=7,faults=alloc@3+submit@7))");
  for (const char* inner : {"validate(cpu)", "adversary(cpu,seed=2)"}) {
    const std::string name = fmt::format("adversary({},seed=7)", inner);
    EXPECT_THAT(opened_as(name.c_str()), HasSubstr(fmt::format("cannot wrap '{}'", inner)))
        << "its name ends at the comma behind its parentheses";
  }
}

TEST(Devices, the_cpu_has_few_strong_threads_and_gpus_many_weak_ones_also_behind_wrappers) {
  const Variable plain("HOLDFAST_VALIDATE", nullptr);
  for (const DeviceListing& listed : list_devices()) {
    const ThreadStyle expected =
        listed.name == "cpu" ? ThreadStyle::few_strong : ThreadStyle::many_weak;
    for (const char* form : {"{}", "validate({})", "adversary({})", "validate(adversary({}))"}) {
      const auto opened = open_device(fmt::format(fmt::runtime(form), listed.name));
      if (!opened) continue;
      EXPECT_EQ(opened.value()->info().thread_style, expected) << opened.value()->info().name;
    }
  }
}

TEST(Devices, variables_put_wrappers_around_a_bare_name) {
  const Variable validate("HOLDFAST_VALIDATE", "1");
  EXPECT_EQ(opened_as("cpu"), "validate(cpu)");
  EXPECT_EQ(opened_as("adversary(cpu,seed=2)"), "validate(adversary(cpu,seed=2))");
  EXPECT_EQ(opened_as("validate(cpu)"), "validate(cpu)");
  const Variable adversary("HOLDFAST_ADVERSARY", "seed=9");
  EXPECT_EQ(opened_as("cpu"), "validate(adversary(cpu,seed=9))");
  EXPECT_EQ(opened_as("validate(cpu)"), "validate(adversary(cpu,seed=9))");
}

TEST(Devices, options_that_cannot_be_read_are_refused_with_a_sentence) {
  EXPECT_THAT(opened_as("adversary(cpu,seed=x)"), HasSubstr("'x' is no seed"));
  EXPECT_THAT(opened_as("adversary(cpu,seed=1,seed=2)"), HasSubstr("does not know 'seed=2'"));
  EXPECT_THAT(opened_as("adversary(cpu,mood=bad)"), HasSubstr("does not know 'mood=bad'"));
  EXPECT_THAT(opened_as("adversary(cpu,faults=alloc@0)"), HasSubstr("'alloc@0' is no fault"));
  EXPECT_THAT(opened_as("adversary(cpu,schedule=1.1)"), HasSubstr("only inside a simulation"));
  EXPECT_THAT(opened_as("adversary(validate(cpu))"), HasSubstr("validate stands outermost"));
  EXPECT_THAT(opened_as("adversary(adversary(cpu))"), HasSubstr("cannot wrap"));
  EXPECT_THAT(opened_as("adversary(abacus)"), HasSubstr("no device 'abacus'"));
  EXPECT_THAT(opened_as("validate(cpu"), HasSubstr("no device 'validate(cpu'"));
  const Variable adversary("HOLDFAST_ADVERSARY", "nonsense");
  EXPECT_THAT(opened_as("cpu"), HasSubstr("does not know 'nonsense'"));
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
  {
    const Variable device("HOLDFAST_DEVICE", "abacus");
    EXPECT_THAT(open_default_device().failure().message(), HasSubstr("'abacus'"));
  }
  EXPECT_TRUE(open_default_device().ok());
}

TEST(Devices, one_kind_is_listed_without_the_others) {
  const std::vector<DeviceListing> listed = list_devices("cpu");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].name, "cpu");
  EXPECT_TRUE(listed[0].missing.empty());
  EXPECT_TRUE(list_devices("abacus").empty());
}

}  // namespace
}  // namespace holdfast::hal
