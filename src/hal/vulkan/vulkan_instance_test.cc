#include "holdfast/hal/vulkan/vulkan_instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "holdfast/base/log.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/testing/variable.h"

namespace holdfast::hal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Shared = std::shared_ptr<const VulkanInstance>;

using holdfast::testing::Variable;

// Needs a loader and a driver; without them there is nothing to test.
class VulkanInstanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto got = VulkanInstance::get(false);
    if (!got.ok()) {
      EXPECT_EQ(got.failure().code(), ErrorCode::environment);
      GTEST_SKIP() << got.failure().message();
    }
  }
  static Shared get(bool layers) { return VulkanInstance::get(layers).or_raise(); }
  static bool layers_are_installed() { return VulkanInstance::get(true).ok(); }

  const Variable no_layers{"HOLDFAST_VULKAN_LAYERS", nullptr};
};

// Hears all messages until it goes out of scope.
class Listener {
 public:
  Listener() {
    before_ = set_vulkan_message_handler(
        [this](const VulkanMessage& message) { ids_.lock()->push_back(message.id); });
  }
  ~Listener() { set_vulkan_message_handler(before_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  std::vector<std::string> ids() const { return *ids_.lock(); }

 private:
  sync::Guarded<std::vector<std::string>> ids_;
  std::function<void(const VulkanMessage&)> before_;
};

// An offence that every driver survives: it never looks at this field.
void offend(const VulkanInstance& instance) {
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  vkGetPhysicalDeviceProperties2(instance.candidates().front().handle, &properties);
}

TEST(VulkanApi, results_have_their_names) {
  EXPECT_STREQ(to_string(VK_ERROR_DEVICE_LOST), "VK_ERROR_DEVICE_LOST");
  EXPECT_STREQ(to_string(VK_SUCCESS), "VK_SUCCESS");
  EXPECT_STREQ(to_string(static_cast<VkResult>(-12345)), "an unknown VkResult");
}

TEST(VulkanApi, a_failure_says_what_was_tried_and_what_came_back) {
  EXPECT_FALSE(failure_of(VK_SUCCESS, "anything"));
  const Failure failure = failure_of(VK_ERROR_FORMAT_NOT_SUPPORTED, "making the buffer 'b'");
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_THAT(failure.message(), HasSubstr("making the buffer 'b'"));
  EXPECT_THAT(failure.message(), HasSubstr("VK_ERROR_FORMAT_NOT_SUPPORTED"));
}

TEST(VulkanApi, failures_of_memory_and_of_the_device_have_their_own_codes) {
  for (const VkResult result :
       {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_TOO_MANY_OBJECTS}) {
    EXPECT_EQ(failure_of(result, "it").code(), ErrorCode::out_of_memory) << to_string(result);
  }
  EXPECT_EQ(failure_of(VK_ERROR_DEVICE_LOST, "it").code(), ErrorCode::device_lost);
}

TEST_F(VulkanInstanceTest, devices_that_are_open_together_share_one) {
  const Shared first = get(false);
  EXPECT_EQ(first, get(false));
  EXPECT_NE(first->handle(), VK_NULL_HANDLE);
  EXPECT_FALSE(first->has_layers());
}

TEST_F(VulkanInstanceTest, it_goes_with_the_last_that_has_it) {
  std::weak_ptr<const VulkanInstance> watched;
  {
    const Shared one = get(false);
    watched = one;
  }
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(get(false)->candidates().empty()) << "and another can be made";
}

TEST_F(VulkanInstanceTest, threads_that_come_at_once_get_one_between_them) {
  for (int round = 0; round < 5; ++round) {
    std::array<Shared, 4> got;
    {
      std::vector<sync::Thread> threads;
      for (Shared& mine : got) threads.emplace_back("getter", [&mine] { mine = get(false); });
    }
    for (const Shared& mine : got) EXPECT_EQ(mine, got.front());
  }
}

TEST_F(VulkanInstanceTest, every_candidate_is_described_and_usable_ones_come_first) {
  const Shared instance = get(false);
  ASSERT_FALSE(instance->candidates().empty());
  bool usable = true;
  for (const VulkanCandidate& candidate : instance->candidates()) {
    EXPECT_NE(candidate.handle, VK_NULL_HANDLE);
    EXPECT_THAT(candidate.name, Not(IsEmpty()));
    EXPECT_THAT(candidate.description, HasSubstr(candidate.name));
    EXPECT_THAT(candidate.description, HasSubstr("Vulkan 1."));
    EXPECT_TRUE(usable || !candidate.skipped.empty()) << candidate.description;
    usable = candidate.skipped.empty();
  }
}

TEST_F(VulkanInstanceTest, a_device_is_chosen_by_number_by_name_or_as_the_first) {
  const Shared instance = get(false);
  const VulkanCandidate& first = instance->candidates().front();
  if (!first.skipped.empty()) GTEST_SKIP() << first.description << ": " << first.skipped;
  EXPECT_EQ(instance->choose("").or_raise(), &first);
  EXPECT_EQ(instance->choose("0").or_raise(), &first);
  std::string part = first.name.substr(1);
  std::transform(part.begin(), part.end(), part.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  EXPECT_EQ(instance->choose(part).or_raise(), &first) << part;
}

TEST_F(VulkanInstanceTest, a_choice_that_fits_nothing_lists_what_there_is) {
  const Shared instance = get(false);
  for (const char* selector : {"abacus", "77", "99999999999999999999999", "0x", "-1"}) {
    const Failure failure = instance->choose(selector).failure();
    ASSERT_TRUE(failure) << selector;
    EXPECT_EQ(failure.code(), ErrorCode::usage);
    EXPECT_THAT(failure.message(), HasSubstr(selector));
    for (const VulkanCandidate& candidate : instance->candidates()) {
      EXPECT_THAT(failure.message(), HasSubstr(candidate.description));
    }
  }
}

TEST_F(VulkanInstanceTest, without_a_driver_the_failure_says_what_to_install) {
  const Variable none("VK_DRIVER_FILES", "/nonexistent/driver.json");
  const Variable none_before_1_3_207("VK_ICD_FILENAMES", "/nonexistent/driver.json");
  const Failure failure = VulkanInstance::get(false).failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_THAT(failure.message(), HasSubstr("mesa-vulkan-drivers"));
}

TEST_F(VulkanInstanceTest, without_the_layers_the_failure_says_what_to_install) {
  const Variable nowhere("VK_LAYER_PATH", "/nonexistent");
  const Failure failure = VulkanInstance::get(true).failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_THAT(failure.message(), HasSubstr("vulkan-validationlayers"));
}

TEST_F(VulkanInstanceTest, devices_are_listed_without_the_layers) {
  const Variable nowhere("VK_LAYER_PATH", "/nonexistent");
  const std::vector<DeviceListing> listed = list_vulkan_devices();
  ASSERT_EQ(listed.size(), get(false)->candidates().size());
  EXPECT_EQ(listed.front().name, "vulkan:0");
  EXPECT_THAT(listed.front().description, HasSubstr(get(false)->candidates().front().name));
}

TEST_F(VulkanInstanceTest, a_variable_asks_for_the_layers_too) {
  if (!layers_are_installed()) GTEST_SKIP() << "no validation layers here";
  const Shared plain = get(false);
  const Variable on("HOLDFAST_VULKAN_LAYERS", "1");
  const Shared checked = get(false);
  EXPECT_TRUE(checked->has_layers());
  EXPECT_NE(checked, plain);
  EXPECT_EQ(checked, get(true));
}

TEST_F(VulkanInstanceTest, a_variable_that_cannot_be_read_is_a_failure) {
  const Variable odd("HOLDFAST_VULKAN_LAYERS", "perhaps");
  const Failure failure = VulkanInstance::get(false).failure();
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure.message(), HasSubstr("HOLDFAST_VULKAN_LAYERS"));
}

TEST_F(VulkanInstanceTest, the_handler_hears_what_the_layers_say) {
  if (!layers_are_installed()) GTEST_SKIP() << "no validation layers here";
  const Listener listener;
  const Shared instance = get(true);
  EXPECT_THAT(listener.ids(), IsEmpty()) << "making one gives no cause";
  offend(*instance);
  EXPECT_THAT(listener.ids(), Contains(HasSubstr("VUID-VkPhysicalDeviceProperties2-sType")));
}

TEST_F(VulkanInstanceTest, an_instance_without_layers_says_nothing) {
  const Listener listener;
  offend(*get(false));
  EXPECT_THAT(listener.ids(), IsEmpty());
}

TEST_F(VulkanInstanceTest, without_a_handler_messages_go_to_the_log) {
  if (!layers_are_installed()) GTEST_SKIP() << "no validation layers here";
  const auto handler = set_vulkan_message_handler(nullptr);
  sync::Guarded<std::string> said;
  const logging::Sink sink =
      logging::set_sink([&](const logging::Message& message) { *said.lock() += message.text; });
  offend(*get(true));
  logging::set_sink(sink);
  set_vulkan_message_handler(handler);
  EXPECT_THAT(*said.lock(), HasSubstr("VUID-VkPhysicalDeviceProperties2-sType"));
}

TEST_F(VulkanInstanceTest, a_handler_that_throws_harms_nobody) {
  if (!layers_are_installed()) GTEST_SKIP() << "no validation layers here";
  int thrown = 0;
  const auto before = set_vulkan_message_handler([&thrown](const VulkanMessage&) {
    ++thrown;
    throw std::runtime_error("a test throws this");
  });
  offend(*get(true));
  set_vulkan_message_handler(before);
  EXPECT_GT(thrown, 0) << "nothing was thrown";
}

}  // namespace
}  // namespace holdfast::hal
