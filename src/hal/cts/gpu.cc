#include "holdfast/hal/cts/gpu.h"

#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/validate/validate_device.h"

namespace holdfast::hal::cts {

// Functions, not constants: devices are registered before main, in any order.
const std::set<std::string>& unsupported_by_gpus() {
  static const std::set<std::string> names{
      // Code of a GPU cannot fail, except with the whole device.
      "a_kernel_that_fails_fails_the_point_of_its_list",
      "a_kernel_that_fails_in_many_groups_fails_its_list_once",
      "lists_behind_a_failed_kernel_run",
      "each_failed_list_has_a_cause_of_its_own",
      "a_program_that_fails_fails_the_replay_only",
      // A callback throws while its list is translated: all that the list writes is bad, whether it
      // ran or not.
      "other_commands_of_a_list_with_a_failed_command_run_and_are_good",
      "readers_of_what_a_failed_command_writes_do_not_run_nor_do_their_readers",
      "bytes_that_a_list_overwrites_after_a_failure_are_good",
      "a_data_wait_keeps_only_the_commands_from_running_that_read_bad_bytes",
      "a_replay_whose_command_fails_damages_what_its_slots_are_bound_to",
      "a_failed_list_tells_its_ticket_which_bytes_are_bad",
      "random_failures_leave_bad_exactly_what_depends_on_them",
      // A callback adds to a stream or command buffer and is given no host memory.
      "a_native_callback_gets_what_it_declared",
      "native_callbacks_and_kernels_run_in_the_order_of_their_barriers",
      "a_program_may_contain_native_callbacks_over_slots",
      // A callback runs inside the call that submits it, so who submits waits for it. (And the
      // first writes to host memory.)
      "a_native_callback_that_does_not_return_is_reported_and_its_memory_left_alone",
      "a_second_close_does_not_say_clean_while_a_list_runs",
  };
  return names;
}

const std::set<std::string>& unsupported_by_hostile_gpus() {
  static const std::set<std::string> names = [] {
    std::set<std::string> result = unsupported_by_gpus();
    for (const char* name :
         {"a_second_close_does_not_say_clean_while_a_list_runs",
          "other_commands_of_a_list_with_a_failed_command_run_and_are_good",
          "readers_of_what_a_failed_command_writes_do_not_run_nor_do_their_readers",
          "bytes_that_a_list_overwrites_after_a_failure_are_good",
          "a_data_wait_keeps_only_the_commands_from_running_that_read_bad_bytes",
          "a_replay_whose_command_fails_damages_what_its_slots_are_bound_to",
          "a_failed_list_tells_its_ticket_which_bytes_are_bad",
          "random_failures_leave_bad_exactly_what_depends_on_them"}) {
      result.erase(name);
    }
    return result;
  }();
  return names;
}

Ref<Device> plain_gpu(const Ref<Device>& device) { return device; }

Ref<Device> validated_gpu(const Ref<Device>& device) {
  return ValidateDevice::wrap(device, {fail_the_test});
}

Ref<Device> hostile_gpu(const Ref<Device>& device) {
  return validated_gpu(AdversaryDevice::wrap(device, {7, {}, kGpuCloseBound}));
}

}  // namespace holdfast::hal::cts
