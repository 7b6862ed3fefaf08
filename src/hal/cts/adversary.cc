#include "holdfast/hal/adversary/adversary_device.h"

#include <gtest/gtest.h>

#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/registry.h"
#include "holdfast/hal/validate/validate_device.h"

namespace holdfast::hal::cts {
namespace {

void fail_the_test(const Violation& violation) {
  if (!violation.is_note()) ADD_FAILURE() << to_string(violation.kind) << ": " << violation.message;
}

// The adversary on a thread of its own: hostile, and still what the contract allows.
DeviceUnderTest hostile_cpu(std::string name, bool host_visible) {
  CpuOptions options;
  options.close_bound = std::chrono::milliseconds(20);
  options.device_memory_host_visible = host_visible;
  options.immediate = true;
  options.recycles_memory = true;
  return {std::move(name),
          [options] {
            return Result<Ref<Device>>(ValidateDevice::wrap(
                AdversaryDevice::wrap(CpuDevice::open(options), {7, {}, options.close_bound}),
                {fail_the_test}));
          },
          cpu_module,
          {}};
}

const bool kRegistered = register_device(hostile_cpu("validate_adversary_cpu", true)) &&
                         register_device(hostile_cpu("validate_adversary_cpu_discrete", false));

}  // namespace
}  // namespace holdfast::hal::cts
