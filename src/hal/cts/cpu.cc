#include "holdfast/hal/cpu/cpu_device.h"

#include "holdfast/hal/cts/cpu_kernels.h"
#include "holdfast/hal/cts/registry.h"

namespace holdfast::hal::cts {

namespace {

DeviceUnderTest cpu(std::string name, const CpuOptions& options) {
  return {std::move(name),
          [options] { return Result<Ref<Device>>(CpuDevice::open(options)); },
          cpu_module,
          {}};
}

// Long enough for what can finish, short for what cannot.
constexpr sync::Duration kCloseBound = std::chrono::milliseconds(20);

CpuOptions shared_memory() {
  CpuOptions options;
  options.close_bound = kCloseBound;
  return options;
}

CpuOptions discrete() {
  CpuOptions options = shared_memory();
  options.device_memory_host_visible = false;
  options.helpers = 1;
  return options;
}

const bool kCpuRegistered = register_device(cpu("cpu", shared_memory())) &&
                            register_device(cpu("cpu_discrete", discrete()));

}  // namespace

}  // namespace holdfast::hal::cts
