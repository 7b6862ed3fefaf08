#include "holdfast/hal/cts/cts.h"

namespace holdfast::hal::cts {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CtsRegistry, every_unsupported_name_is_the_name_of_a_test) {
  for (const DeviceUnderTest& device : registered_devices()) {
    EXPECT_THAT(unknown_names(device), IsEmpty()) << "of device " << device.name;
  }
}

TEST(CtsRegistry, an_unsupported_name_that_no_test_has_is_found) {
  DeviceUnderTest device;
  device.unsupported = {"a_list_waits_for_the_host", "no_such_test"};
  EXPECT_THAT(unknown_names(device), ElementsAre("no_such_test"));
}

TEST(CtsRegistry, a_name_is_registered_once_and_fits_into_a_test_name) {
  ASSERT_FALSE(registered_devices().empty());
  DeviceUnderTest device = registered_devices().front();
  EXPECT_THROW(register_device(device), UsageError);
  device.name = "gpu:0";
  EXPECT_THROW(register_device(device), UsageError);
  device.name = "";
  EXPECT_THROW(register_device(device), UsageError);
}

TEST(CtsRegistry, every_device_brings_every_kernel) {
  for (const DeviceUnderTest& under_test : registered_devices()) {
    if (under_test.missing && !under_test.missing().empty()) continue;
    const Ref<Device> device = under_test.open().or_raise();
    for (const KernelInterface& kernel : kKernels) {
      // What a device has no kernel for, it must have named.
      if (kernel.name == "fail" && !under_test.unsupported.empty()) continue;
      const auto made = device->create_pipeline(
          {std::string(kernel.name), under_test.module(kernel.name, kernel.parameter_bytes),
           kernel.bindings, kernel.parameter_bytes});
      ASSERT_TRUE(made.ok()) << under_test.name << ": " << made.failure().message();
      EXPECT_EQ(made.value()->name(), kernel.name);
      EXPECT_EQ(made.value()->bindings(), kernel.bindings);
      EXPECT_EQ(made.value()->parameter_bytes(), kernel.parameter_bytes);
    }
  }
}

}  // namespace

TEST_P(Cts, a_device_says_who_and_what_it_is) {
  const DeviceInfo& info = device().info();
  EXPECT_TRUE(info.id);
  EXPECT_EQ(device().id(), info.id);
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.description.empty());
  EXPECT_EQ(device().queues().size(), info.queues);
  ASSERT_GE(info.queues, 1U);
  EXPECT_GT(info.max_buffer, Bytes{});
  EXPECT_GT(info.max_buffers, 0U);
  EXPECT_GT(info.memory, Bytes{});
  EXPECT_GT(info.buffer_alignment, Bytes{});
  EXPECT_FALSE(device().lost());
}

TEST_P(Cts, two_devices_have_distinct_ids) { EXPECT_NE(open_another()->id(), device().id()); }

TEST_P(Cts, every_queue_has_a_timeline_and_a_name_of_its_own) {
  std::set<std::string> names;
  std::set<TimelineId> timelines;
  for (uint32_t i = 0; i < device().queues().size(); ++i) {
    EXPECT_EQ(queue(i)->index(), i);
    EXPECT_EQ(queue(i)->device(), device().id());
    ASSERT_TRUE(queue(i)->timeline());
    EXPECT_EQ(queue(i)->timeline()->device(), device().id());
    EXPECT_EQ(queue(i)->in_flight(), 0U);
    EXPECT_FALSE(queue(i)->oldest().has_value());
    names.insert(queue(i)->name());
    timelines.insert(queue(i)->timeline()->id());
  }
  EXPECT_EQ(names.size(), device().queues().size());
  EXPECT_EQ(timelines.size(), device().queues().size());
  EXPECT_FALSE(names.contains(""));
}

}  // namespace holdfast::hal::cts
