#include <gtest/gtest.h>

#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/validate/validate_device.h"

namespace holdfast::hal::cts {
namespace {

CpuOptions options(bool host_visible) {
  CpuOptions options;
  options.close_bound = std::chrono::milliseconds(20);
  options.device_memory_host_visible = host_visible;
  return options;
}

DeviceUnderTest validated(std::string name, bool host_visible) {
  return {std::move(name),
          [host_visible] {
            return Result<Ref<Device>>(
                ValidateDevice::wrap(CpuDevice::open(options(host_visible)), {fail_the_test}));
          },
          cpu_module,
          {}};
}

// The adversary on a thread of its own: hostile, and still what the contract allows.
DeviceUnderTest hostile(std::string name, bool host_visible) {
  return {std::move(name),
          [host_visible] {
            CpuOptions inner = options(host_visible);
            inner.immediate = true;
            inner.recycles_memory = true;
            return Result<Ref<Device>>(ValidateDevice::wrap(
                AdversaryDevice::wrap(CpuDevice::open(inner), {7, {}, inner.close_bound}),
                {fail_the_test}));
          },
          cpu_module,
          {}};
}

const bool kWrappedRegistered = register_device(validated("validate_cpu", true)) &&
                                register_device(validated("validate_cpu_discrete", false)) &&
                                register_device(hostile("validate_adversary_cpu", true)) &&
                                register_device(hostile("validate_adversary_cpu_discrete", false));

}  // namespace
}  // namespace holdfast::hal::cts
