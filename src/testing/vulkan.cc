#include "holdfast/testing/vulkan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/testing/family.h"

namespace holdfast::testing {
namespace {

struct State {
  sync::LeafMutex mutex;  // guards all below
  std::vector<hal::VulkanMessage> messages;
  std::shared_ptr<const hal::VulkanInstance> loaded;
};
// Never destroyed: the layers may speak while statics go.
State& state() {
  static auto* const kept = new State;
  return *kept;
}

void hear(const hal::VulkanMessage& message) {
  const sync::LeafLock lock(state().mutex);
  state().messages.push_back(message);
}

void fail_for_messages() {
  for (const hal::VulkanMessage& message : take_vulkan_messages()) {
    ADD_FAILURE() << "the validation layers: " << message.id << "\n" << message.text;
  }
}

class Listener final : public ::testing::EmptyTestEventListener {
  // NOLINTBEGIN(readability-identifier-naming): names of GoogleTest
  void OnTestEnd(const ::testing::TestInfo&) override { fail_for_messages(); }
  void OnTestIterationEnd(const ::testing::UnitTest&, int) override {
    std::shared_ptr<const hal::VulkanInstance> last;
    {
      const sync::LeafLock lock(state().mutex);
      last.swap(state().loaded);
    }
    last.reset();
    // What was said between tests, and of what the instance found left behind.
    fail_for_messages();
  }
  // NOLINTEND(readability-identifier-naming)
};

const bool kListening = [] {
  hal::set_vulkan_message_handler(hear);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

bool is_required() { return env::flag("HOLDFAST_REQUIRE_VULKAN").value_or(false); }

}  // namespace

std::string why_no_vulkan() {
  if (is_required()) return {};
  const auto instance = hal::VulkanInstance::get(false);
  if (!instance) return instance.failure().message();
  const auto chosen = instance.value()->choose("");
  return chosen ? std::string() : chosen.failure().message();
}

std::string why_no_vulkan_layers() {
  if (is_required()) return {};
  const auto instance = hal::VulkanInstance::get(true);
  return instance ? std::string() : instance.failure().message();
}

Failure load_vulkan(bool layers) {
  auto instance = hal::VulkanInstance::get(layers);
  if (!instance) return instance.failure();
  const sync::LeafLock lock(state().mutex);
  if (!state().loaded) state().loaded = std::move(instance.value());
  return {};
}

Result<Ref<hal::VulkanDevice>> open_vulkan(hal::VulkanOptions options) {
  options.queues = limited_queues(options.queues);
  if (env::flag("HOLDFAST_TEST_DISCRETE").value_or(false)) {
    options.device_memory_host_visible = false;
  }
  if (Failure failure = load_vulkan(options.layers)) return failure;
  return hal::VulkanDevice::open(options);
}

uint32_t all_vulkan_queues(uint32_t least) {
  static const uint32_t all = [] {
    const auto opened = open_vulkan({});
    return opened ? opened.value()->info().queues : 1;
  }();
  return std::max(all, least);
}

hal::VulkanDevice* find_vulkan(hal::Device& device) {
  return dynamic_cast<hal::VulkanDevice*>(&innermost(device));
}

std::vector<hal::VulkanMessage> take_vulkan_messages() {
  const sync::LeafLock lock(state().mutex);
  return std::exchange(state().messages, {});
}

}  // namespace holdfast::testing
