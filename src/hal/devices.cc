#include "holdfast/hal/devices.h"

#include <fmt/format.h>

#include "holdfast/base/env.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/hal/vulkan/vulkan_device.h"

namespace holdfast::hal {
namespace {

// What stands between "WRAPPER(" and the last ")"; nothing where the name is no such thing.
std::optional<std::string_view> inside(std::string_view name, std::string_view wrapper) {
  if (!name.starts_with(wrapper) || !name.substr(wrapper.size()).starts_with('(') ||
      !name.ends_with(')')) {
    return std::nullopt;
  }
  return name.substr(wrapper.size() + 1, name.size() - wrapper.size() - 2);
}

// The inner device's name ends at the first comma that no parenthesis encloses.
size_t end_of_name(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

[[noreturn]] void refuse(std::string_view name) {
  std::string known;
  for (const DeviceListing& device : list_devices()) known += fmt::format("{}, ", device.name);
  throw UsageError(
      fmt::format("there is no device '{}' here; there are: {}and around each validate(...) and "
                  "adversary(...,seed=N,faults=alloc@N+submit@N)",
                  name, known));
}

// `immediate`: for a wrapper that decides itself when something runs.
Ref<Device> open_bare(std::string_view name, bool immediate) {
  if (name == "cpu") {
    return CpuDevice::open({.immediate = immediate, .recycles_memory = immediate});
  }
  if (name == "vulkan" || name.starts_with("vulkan:")) {
    VulkanOptions options;
    if (name != "vulkan") options.device = name.substr(std::string_view("vulkan:").size());
    options.immediate = immediate;
    return VulkanDevice::open(options).or_raise();
  }
  if (const auto wrapped = inside(name, "adversary")) {
    const size_t end = end_of_name(*wrapped);
    const std::string_view options = wrapped->substr(std::min(end + 1, wrapped->size()));
    return AdversaryDevice::wrap(open_bare(wrapped->substr(0, end), true),
                                 AdversaryOptions::parse(options));
  }
  if (const auto wrapped = inside(name, "validate")) {
    return ValidateDevice::wrap(open_bare(*wrapped, immediate));
  }
  refuse(name);
}

}  // namespace

std::vector<DeviceListing> list_devices() {
  std::vector<DeviceListing> all{
      {"cpu", fmt::format("the host CPU, {} hardware threads", sync::hardware_threads())}};
  for (DeviceListing& device : list_vulkan_devices()) all.push_back(std::move(device));
  return all;
}

Result<Ref<Device>> open_device(std::string_view name) {
  try {
    std::string full(name);
    const auto adversary = env::text("HOLDFAST_ADVERSARY");
    const auto validated = inside(name, "validate");
    if (adversary && name.find("adversary(") == std::string_view::npos) {
      full = fmt::format("adversary({},{})", validated.value_or(name), *adversary);
      if (validated) full = fmt::format("validate({})", full);
    }
    if (env::flag("HOLDFAST_VALIDATE").value_or(false) && !validated) {
      full = fmt::format("validate({})", full);
    }
    return open_bare(full, false);
  } catch (const Error& error) {
    return Failure(error.code(), error.what());
  }
}

std::string default_device_name() { return env::text("HOLDFAST_DEVICE").value_or("cpu"); }

Result<Ref<Device>> open_default_device() { return open_device(default_device_name()); }

}  // namespace holdfast::hal
