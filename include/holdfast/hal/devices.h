#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hal/device.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Opens a device by name: "cpu", "validate(cpu)", "validate(adversary(cpu,seed=7,faults=alloc@3))".
// Each call opens a new one. A name that does not exist is a failure that lists those that do.
// HOLDFAST_ADVERSARY (the options: "seed=7,faults=alloc@3") and HOLDFAST_VALIDATE=1 put these
// wrappers around a name that has none.
Result<Ref<Device>> open_device(std::string_view name);
// The name that HOLDFAST_DEVICE gives, otherwise the CPU's: this layer does not know for which
// others kernels can be compiled.
std::string default_device_name();
// Opens the device that default_device_name() names.
Result<Ref<Device>> open_default_device();

// Those of one kind ("cuda"), or all; loads the drivers of the kinds it lists.
std::vector<DeviceListing> list_devices(std::string_view kind = {});

}  // namespace holdfast::hal

#pragma GCC visibility pop
