#include <algorithm>
#include <cctype>

#include "holdfast/hal/cts/vulkan_cts.h"
#include "holdfast/hal/devices.h"

// Vulkan devices by name.

namespace holdfast::hal::cts {
namespace {

using ::testing::HasSubstr;

class VulkanNames : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    instance_ = VulkanInstance::get(false).or_raise();
    ASSERT_FALSE(instance_->candidates().empty());
  }
  const VulkanCandidate& best() const { return instance_->candidates()[0]; }

 private:
  std::shared_ptr<const VulkanInstance> instance_;
};

TEST_F(VulkanNames, a_device_opens_by_its_number) {
  const auto opened = open_device("vulkan:0");
  ASSERT_TRUE(opened.ok()) << opened.failure().message();
  EXPECT_THAT(opened.value()->info().name, HasSubstr("vulkan:0"));
  EXPECT_THAT(opened.value()->info().description, HasSubstr(best().name));
}

TEST_F(VulkanNames, a_device_opens_without_a_number) {
  const auto opened = open_device("vulkan");
  ASSERT_TRUE(opened.ok()) << opened.failure().message();
  EXPECT_THAT(opened.value()->info().name, HasSubstr("vulkan:0"));
}

TEST_F(VulkanNames, a_device_opens_by_a_part_of_its_name_in_any_case) {
  // One word of it: names have commas and brackets, which the names of devices use themselves.
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0; };
  const auto begin = std::find_if(best().name.begin(), best().name.end(), is_word);
  std::string word(begin, std::find_if_not(begin, best().name.end(), is_word));
  for (const bool upper : {false, true}) {
    std::ranges::transform(word, word.begin(), [&](unsigned char c) {
      return static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
    });
    const auto opened = open_device("vulkan:" + word);
    ASSERT_TRUE(opened.ok()) << opened.failure().message();
    EXPECT_THAT(opened.value()->info().description, HasSubstr(best().name));
  }
}

TEST_F(VulkanNames, wrappers_nest_around_it) {
  const auto opened = open_device("validate(vulkan:0)");
  ASSERT_TRUE(opened.ok()) << opened.failure().message();
  EXPECT_EQ(opened.value()->info().name, "validate(vulkan:0)");
  const auto hostile = open_device("validate(adversary(vulkan:0,seed=7))");
  ASSERT_TRUE(hostile.ok()) << hostile.failure().message();
  EXPECT_EQ(hostile.value()->info().name, "validate(adversary(vulkan:0,seed=7))");
  const Ref<Queue>& queue = hostile.value()->queues()[0];
  const auto data = Allocation::whole(
      hostile.value()->create_buffer({{64}, MemoryKind::readback, "data"}).or_raise());
  CommandList work(hostile.value()->info(), "work");
  work.fill(data, range(0, 64), std::byte{5});
  ASSERT_TRUE(reached(queue->submit(work).or_raise()));
  EXPECT_EQ(data->host_pointer()[63], std::byte{5});
}

TEST_F(VulkanNames, a_name_that_no_device_has_is_a_failure_that_lists_those_there_are) {
  for (const char* name : {"vulkan:99", "vulkan:no such thing"}) {
    const auto refused = open_device(name);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_THAT(refused.failure().message(), HasSubstr(best().name));
  }
}

TEST_F(VulkanNames, the_list_of_devices_has_them) {
  const auto all = list_devices();
  const auto found = std::ranges::find(all, "vulkan:0", &DeviceListing::name);
  ASSERT_NE(found, all.end());
  EXPECT_THAT(found->description, HasSubstr(best().name));
  EXPECT_NE(std::ranges::find(all, "cpu", &DeviceListing::name), all.end());
}

}  // namespace
}  // namespace holdfast::hal::cts
