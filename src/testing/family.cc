#include "holdfast/testing/family.h"

#include <algorithm>
#include <stdexcept>

#include "holdfast/base/env.h"
#include "holdfast/hal/wrapping_device.h"
#include "holdfast/testing/cuda.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::testing {

const char* to_string(Family family) {
  switch (family) {
    case Family::cpu: return "cpu";
    case Family::vulkan: return "vulkan";
    case Family::cuda: return "cuda";
  }
  return "unknown";
}

std::optional<Family> family_called(std::string_view name) {
  for (const Family family : {Family::cpu, Family::vulkan, Family::cuda}) {
    if (name == to_string(family)) return family;
  }
  return {};
}

Family family_of_bodies() {
  const std::string name = env::text("HOLDFAST_TEST_BODIES").value_or("cpu");
  if (const auto family = family_called(name)) return *family;
  throw std::invalid_argument("HOLDFAST_TEST_BODIES is '" + name + "': it is cpu, vulkan or cuda");
}

std::string why_no(Family family) {
  switch (family) {
    case Family::cpu: return {};
    case Family::vulkan: return why_no_vulkan();
    case Family::cuda: return why_no_cuda();
  }
  return "no such family";
}

Failure load(Family family) {
  switch (family) {
    case Family::cpu: return {};
    case Family::vulkan: return load_vulkan();
    case Family::cuda: return load_cuda();
  }
  return {};
}

uint32_t limited_queues(uint32_t wanted) {
  const auto most = env::number("HOLDFAST_TEST_QUEUES");
  if (!most) return wanted;
  const auto limit = static_cast<uint32_t>(*most);
  return wanted == 0 ? limit : std::min(wanted, limit);
}

std::vector<std::string> take_complaints(Family family) {
  std::vector<std::string> texts;
  if (family == Family::cuda) return take_cuda_complaints();
  if (family != Family::vulkan) return texts;
  for (const hal::VulkanMessage& message : take_vulkan_messages()) texts.push_back(message.text);
  return texts;
}

hal::NativeCallback native_fill(hal::Device& device, uint8_t value) {
  if (const auto* const vulkan = find_vulkan(device)) {
    const auto fill = vulkan_function<PFN_vkCmdFillBuffer>(*vulkan, "vkCmdFillBuffer");
    return [fill, word = value * 0x01010101U](const hal::NativeCall& call) {
      const hal::NativeBinding& to = call.native_bindings[0];
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle, which Vulkan has as a pointer
      const auto buffer = reinterpret_cast<VkBuffer>(to.buffer);
      fill(static_cast<VkCommandBuffer>(call.native_stream), buffer, to.offset, to.length, word);
    };
  }
  return [fill = cuda_api()->calls().cuMemsetD8Async, value](const hal::NativeCall& call) {
    const hal::NativeBinding& to = call.native_bindings[0];
    const auto stream = static_cast<hal::cu::CUstream>(call.native_stream);
    if (fill(to.address, value, to.length, stream) != hal::cu::CUDA_SUCCESS) {
      throw std::runtime_error("cuMemsetD8Async was refused");
    }
  };
}

hal::Device& innermost(hal::Device& device) {
  hal::Device* at = &device;
  while (auto* const wrapper = dynamic_cast<hal::WrappingDevice*>(at)) at = wrapper->inner().get();
  return *at;
}

}  // namespace holdfast::testing
