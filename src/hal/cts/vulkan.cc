#include <gtest/gtest.h>

#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cts/vulkan_cts.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::hal::cts {
namespace {

using holdfast::testing::all_vulkan_queues;
using holdfast::testing::open_vulkan;
using holdfast::testing::why_no_vulkan;

// With this many queues and more all tests that want several mean something; where the hardware has
// fewer, ours share them.
constexpr uint32_t kQueues = 4;

Module spirv(std::string_view kernel, Bytes parameter_bytes) {
  const bool spills = kernel == "store_params" && parameter_bytes > SpirvModule::kMaxPushBytes;
  return spirv_of(spills ? "store_params_buffer" : kernel, parameter_bytes);
}

const std::set<std::string> kUnsupported{
    // Code of a GPU cannot fail, except with the whole device.
    "a_kernel_that_fails_fails_the_point_of_its_list",
    "a_kernel_that_fails_in_many_groups_fails_its_list_once",
    "lists_behind_a_failed_kernel_run",
    "each_failed_list_has_a_cause_of_its_own",
    "a_program_that_fails_fails_the_replay_only",
    // A callback throws while its list is translated: nothing of the list runs, and all that it
    // writes is bad.
    "other_commands_of_a_list_with_a_failed_command_run_and_are_good",
    "readers_of_what_a_failed_command_writes_do_not_run_nor_do_their_readers",
    "bytes_that_a_list_overwrites_after_a_failure_are_good",
    "a_data_wait_keeps_only_the_commands_from_running_that_read_bad_bytes",
    "a_replay_whose_command_fails_damages_what_its_slots_are_bound_to",
    "a_failed_list_tells_its_ticket_which_bytes_are_bad",
    "random_failures_leave_bad_exactly_what_depends_on_them",
    // A callback records commands and is given no host memory: vulkan_suite.cc has its own.
    "a_native_callback_gets_what_it_declared",
    "native_callbacks_and_kernels_run_in_the_order_of_their_barriers",
    "a_program_may_contain_native_callbacks_over_slots",
    // A callback runs inside the call that submits it, so who submits waits for it. (And the first
    // writes to host memory.)
    "a_native_callback_that_does_not_return_is_reported_and_its_memory_left_alone",
    "a_second_close_does_not_say_clean_while_a_list_runs",
};

using Wrapper = Ref<Device> (*)(const Ref<Device>&);
Ref<Device> plain(const Ref<Device>& device) { return device; }
Ref<Device> validated(const Ref<Device>& device) {
  return ValidateDevice::wrap(device, {fail_the_test});
}

// Long enough for what can finish, short for what cannot.
constexpr sync::Duration kVulkanCloseBound = std::chrono::milliseconds(20);

// The adversary on a thread of its own: hostile, and still what the contract allows.
Ref<Device> hostile(const Ref<Device>& device) {
  return validated(AdversaryDevice::wrap(device, {7, {}, kVulkanCloseBound}));
}

bool add(std::string name, const VulkanOptions& options, Wrapper wrap = plain,
         const std::set<std::string>& unsupported = kUnsupported) {
  return register_device({std::move(name),
                          [options, wrap]() -> Result<Ref<Device>> {
                            VulkanOptions own = options;
                            own.queues = all_vulkan_queues(kQueues);
                            // The suite means queues that take everything.
                            own.copy_queues = 0;
                            own.close_bound = kVulkanCloseBound;
                            auto opened = open_vulkan(own);
                            if (!opened) return opened.failure();
                            return wrap(opened.value());
                          },
                          spirv, unsupported, why_no_vulkan});
}

VulkanOptions discrete_vulkan() {
  VulkanOptions options;
  options.device_memory_host_visible = false;
  return options;
}

VulkanOptions without_push_descriptors() {
  VulkanOptions options;
  options.push_descriptors = false;
  return options;
}

VulkanOptions immediate() {
  VulkanOptions options;
  options.immediate = true;
  return options;
}

// The adversary's thread calls callbacks, as a device's does, and hands on one command at a time,
// so that it can tell which one failed.
std::set<std::string> unsupported_by_the_adversary() {
  std::set<std::string> names = kUnsupported;
  names.erase("a_second_close_does_not_say_clean_while_a_list_runs");
  for (const char* name :
       {"other_commands_of_a_list_with_a_failed_command_run_and_are_good",
        "readers_of_what_a_failed_command_writes_do_not_run_nor_do_their_readers",
        "bytes_that_a_list_overwrites_after_a_failure_are_good",
        "a_data_wait_keeps_only_the_commands_from_running_that_read_bad_bytes",
        "a_replay_whose_command_fails_damages_what_its_slots_are_bound_to",
        "a_failed_list_tells_its_ticket_which_bytes_are_bad",
        "random_failures_leave_bad_exactly_what_depends_on_them"}) {
    names.erase(name);
  }
  return names;
}

const bool kVulkanRegistered =
    add("vulkan", {}) && add("vulkan_discrete", discrete_vulkan()) &&
    add("vulkan_without_push_descriptors", without_push_descriptors()) &&
    add("validate_vulkan", {}, validated) &&
    add("validate_vulkan_discrete", discrete_vulkan(), validated) &&
    add("validate_adversary_vulkan", immediate(), hostile, unsupported_by_the_adversary());

}  // namespace
}  // namespace holdfast::hal::cts
