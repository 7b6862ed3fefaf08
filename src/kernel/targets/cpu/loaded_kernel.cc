#include "holdfast/kernel/targets/cpu/loaded_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "holdfast/kernel/targets/cpu/kernel_host.h"

namespace holdfast::kernel {

namespace {

constexpr uintptr_t kParameterAlignment = 16;  // as kernel_abi.h promises

uint64_t pieces_of(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Of the whole grid; the largest number where they are more than that.
uint64_t threadgroups(const LaunchBlock& block) {
  uint64_t total = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (__builtin_mul_overflow(total, pieces_of(block.grid[axis], block.group[axis]), &total)) {
      return ~uint64_t{0};
    }
  }
  return total;
}

}  // namespace

LoadedKernel::LoadedKernel(std::string name, const Interface& interface,
                           std::shared_ptr<const SharedObject> object, Entry entry,
                           std::shared_ptr<FiberGroupPool> fibers)
    : name_(std::move(name)),
      bindings_(interface.bindings.size()),
      parameter_bytes_(interface.parameter_bytes.value),
      has_launch_block_(interface.has_launch_block),
      object_(std::move(object)),
      entry_(entry),
      fibers_(std::move(fibers)) {}

void LoadedKernel::check(const hal::HostGroup& group) const {
  if (group.bindings.size() < bindings_ || group.bindings.size() > hal::kMaxBindings) {
    throw ExecutionError(fmt::format("kernel '{}' has {} bindings, and was called with {}", name_,
                                     bindings_, group.bindings.size()));
  }
  const size_t least =
      std::max(parameter_bytes_, has_launch_block_ ? sizeof(LaunchBlock) : size_t{0});
  if (group.parameters.size() < least ||
      group.parameters.size() > static_cast<size_t>(hal::kMaxParameterBytes.value)) {
    throw ExecutionError(
        fmt::format("kernel '{}' has {} bytes of parameters, and was called with "
                    "{}",
                    name_, least, group.parameters.size()));
  }
}

void LoadedKernel::run(const hal::HostGroup& group) const {
  check(group);
  std::array<void*, hal::kMaxBindings> buffers;
  std::array<unsigned long, hal::kMaxBindings> bytes;
  for (size_t i = 0; i < group.bindings.size(); ++i) {
    buffers[i] = group.bindings[i].data();
    bytes[i] = group.bindings[i].size();
  }
  alignas(kParameterAlignment) std::array<std::byte, hal::kMaxParameterBytes.value> aligned;
  const std::byte* parameters = group.parameters.data();
  if (reinterpret_cast<uintptr_t>(parameters) % kParameterAlignment != 0) {
    std::copy(group.parameters.begin(), group.parameters.end(), aligned.begin());
    parameters = aligned.data();
  }
  KernelHost host(name_, *fibers_);
  hf_call call{};
  call.buffers = buffers.data();
  call.bytes = bytes.data();
  call.parameters = reinterpret_cast<const unsigned char*>(parameters);
  call.host = &host;
  call.groups[0] = group.groups.x;
  call.groups[1] = group.groups.y;
  call.groups[2] = group.groups.z;
  const uint64_t index =
      (uint64_t{group.group.z} * group.groups.y + group.group.y) * group.groups.x + group.group.x;
  call.first_group = index;
  call.end_group = index + 1;
  if (has_launch_block_) {
    LaunchBlock block{};
    std::memcpy(&block, parameters, sizeof(block));
    if (std::ranges::find(block.group, 0U) != std::end(block.group)) {
      throw ExecutionError(fmt::format("kernel '{}': a threadgroup without threads", name_));
    }
    const uint64_t total = threadgroups(block);
    const uint64_t each = std::max<uint32_t>(block.groups_per_dispatch, 1);
    if (__builtin_mul_overflow(index, each, &call.first_group) || call.first_group >= total) {
      return;
    }
    call.end_group = call.first_group + std::min(each, total - call.first_group);
  }
  entry_(&call);
}

}  // namespace holdfast::kernel
