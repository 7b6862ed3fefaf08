#include <fmt/format.h>

#include <array>
#include <type_traits>

#include "holdfast/kernel/targets/cpu/cpu_target.h"
#include "holdfast/kernel/targets/cuda/cuda_target.h"
#include "holdfast/kernel/targets/target.h"
#ifdef HOLDFAST_HAS_VULKAN
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/vulkan_target.h"
#endif

namespace holdfast::kernel {
namespace {

template <typename T>
std::shared_ptr<Target> make(const hal::DeviceInfo& device) {
  if constexpr (std::is_constructible_v<T, const hal::DeviceInfo&>) {
    return std::make_shared<T>(device);
  } else {
    return std::make_shared<T>();
  }
}

struct KnownTarget {
  hal::ModuleForm form;
  std::shared_ptr<Target> (*make)(const hal::DeviceInfo& device);
  Failure (*why_no_bodies)();
};

Failure why_no_cpp() { return CppCompiler::find().failure(); }
#ifdef HOLDFAST_HAS_VULKAN
Failure why_no_spirv() { return Clang::find().failure(); }
#endif
Failure why_no_cuda() { return NvrtcLibrary::of_process().failure(); }

// A new target is a line here. One that differs from device to device is made of its DeviceInfo.
constexpr std::array kKnown{
    KnownTarget{hal::ModuleForm::host_function, make<CpuTarget>, why_no_cpp},
#ifdef HOLDFAST_HAS_VULKAN
    KnownTarget{hal::ModuleForm::spirv, make<VulkanTarget>, why_no_spirv},
#endif
    KnownTarget{hal::ModuleForm::cuda, make<CudaTarget>, why_no_cuda},
};

}  // namespace

Failure why_no_bodies(hal::ModuleForm form) {
  for (const KnownTarget& known : kKnown) {
    if (known.form == form) return known.why_no_bodies();
  }
  return Failure(ErrorCode::unsupported, "nothing makes modules of this form");
}

std::shared_ptr<Target> make_target(const hal::DeviceInfo& device) {
  for (const KnownTarget& known : kKnown) {
    if (known.form == device.module_form) return known.make(device);
  }
  throw UnsupportedError(
      fmt::format("no target makes modules of the form that device '{}' takes", device.name));
}

}  // namespace holdfast::kernel
