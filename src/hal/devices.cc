#include "holdfast/hal/devices.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "holdfast/base/env.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/validate/validate_device.h"
#ifdef HOLDFAST_HAS_VULKAN
#include "holdfast/hal/vulkan/vulkan_device.h"
#endif

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

// A kind of device: NAME is the best of them, NAME:SELECTOR another.
struct Kind {
  std::string_view name;
  // `immediate`: for a wrapper that decides itself when something runs. Null where the selector
  // means nothing to it.
  Ref<Device> (*open)(std::optional<std::string_view> selector, bool immediate);
  std::vector<DeviceListing> (*list)();
};

Ref<Device> open_cpu(std::optional<std::string_view> selector, bool immediate) {
  if (selector) return {};
  return CpuDevice::open({.immediate = immediate, .recycles_memory = immediate});
}
std::vector<DeviceListing> list_cpu() {
  return {{"cpu", fmt::format("the host CPU, {} hardware threads", sync::hardware_threads())}};
}

#ifdef HOLDFAST_HAS_VULKAN
Ref<Device> open_vulkan(std::optional<std::string_view> selector, bool immediate) {
  VulkanOptions options;
  options.device = selector.value_or("");
  options.immediate = immediate;
  return VulkanDevice::open(options).or_raise();
}
#endif

Ref<Device> open_cuda(std::optional<std::string_view> selector, bool immediate) {
  CudaOptions options;
  options.device = selector.value_or("");
  options.immediate = immediate;
  return CudaDevice::open(options).or_raise();
}
std::vector<DeviceListing> list_cuda() { return list_cuda_devices(); }

// A new kind of device is a line here.
constexpr std::array kKinds{
    Kind{"cpu", open_cpu, list_cpu},
#ifdef HOLDFAST_HAS_VULKAN
    Kind{"vulkan", open_vulkan, list_vulkan_devices},
#endif
    Kind{"cuda", open_cuda, list_cuda},
};

Ref<Device> open_bare(std::string_view name, bool immediate) {
  const std::string_view kind_name = name.substr(0, name.find(':'));
  for (const Kind& kind : kKinds) {
    if (kind.name != kind_name) continue;
    std::optional<std::string_view> selector;
    if (kind_name.size() < name.size()) selector = name.substr(kind_name.size() + 1);
    if (Ref<Device> opened = kind.open(selector, immediate)) return opened;
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

std::vector<DeviceListing> list_devices(std::string_view wanted) {
  std::vector<DeviceListing> all;
  for (const Kind& kind : kKinds) {
    if (!wanted.empty() && kind.name != wanted) continue;
    for (DeviceListing& device : kind.list()) all.push_back(std::move(device));
  }
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
