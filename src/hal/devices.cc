#include "holdfast/hal/devices.h"

#include <fmt/format.h>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {

std::vector<DeviceListing> list_devices() {
  return {{"cpu", fmt::format("the host CPU, {} hardware threads", sync::hardware_threads())}};
}

Result<Ref<Device>> open_device(std::string_view name) {
  if (name == "cpu") {
    try {
      return Ref<Device>(CpuDevice::open());
    } catch (const Error& error) {
      return Failure(error.code(), error.what());
    }
  }
  std::string known;
  for (const DeviceListing& device : list_devices()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", device.name);
  }
  return Failure(ErrorCode::usage,
                 fmt::format("there is no device '{}' here; there are: {}", name, known));
}

Result<Ref<Device>> open_default_device() {
  return open_device(env::text("HOLDFAST_DEVICE").value_or("cpu"));
}

}  // namespace holdfast::hal
