#include "holdfast/hal/validate/validate_device.h"

#include <gtest/gtest.h>

#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/registry.h"

namespace holdfast::hal::cts {

namespace {

// A device that validates must pass the suite, and the suite must pass validation.
void fail_the_test(const Violation& violation) {
  if (!violation.is_note()) ADD_FAILURE() << to_string(violation.kind) << ": " << violation.message;
}

DeviceUnderTest validated_cpu(std::string name, bool host_visible) {
  CpuOptions options;
  options.close_bound = std::chrono::milliseconds(20);
  options.device_memory_host_visible = host_visible;
  return {
      std::move(name),
      [options] {
        return Result<Ref<Device>>(ValidateDevice::wrap(CpuDevice::open(options), {fail_the_test}));
      },
      cpu_module,
      {}};
}

const bool kRegistered = register_device(validated_cpu("validate_cpu", true)) &&
                         register_device(validated_cpu("validate_cpu_discrete", false));

}  // namespace

}  // namespace holdfast::hal::cts
