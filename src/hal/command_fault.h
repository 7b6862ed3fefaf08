#pragma once

#include <cstdint>
#include <span>

#include "holdfast/hal/command.h"

namespace holdfast::hal {

// What is wrong with a command. Recorders look for it with every command, inline and without words;
// CommandChecks has the words.
struct CommandFault {
  enum class Kind : uint8_t {
    none,
    no_pipeline,
    pipeline_of_other_device,
    replay_range_overflows,
    too_many_parameter_bytes,
    wrong_counts,
    grid_too_large,
    // From here on with a binding.
    too_many_bindings,
    allocation_and_slot,
    no_allocation,
    slot_out_of_range,
    allocation_of_other_device,
    beyond_allocation,
    misaligned,
    too_long
  };
  Kind kind = Kind::none;
  uint32_t binding = 0;

  explicit operator bool() const noexcept { return kind != Kind::none; }
};

inline CommandFault::Kind fault_of_binding(const Binding& b, DeviceId device, Bytes longest,
                                           uint64_t offset_mask) noexcept {
  using enum CommandFault::Kind;
  Bytes offset = b.range.offset;
  if (b.allocation != nullptr) {
    if (b.slot >= 0) return allocation_and_slot;
    if (b.allocation->device() != device) return allocation_of_other_device;
    if (!b.range.fits_in(b.allocation->size())) return beyond_allocation;
    offset += b.allocation->offset();
  } else {
    if (b.slot < 0) return no_allocation;
    if (b.slot >= kMaxSlots || !b.range.fits_in(kMaxBytes)) return slot_out_of_range;
    // A slot's own offset is known, and checked, when it is bound.
  }
  if (b.range.length > longest) return too_long;
  return (offset.value & offset_mask) == 0 ? none : misaligned;
}

[[gnu::always_inline]] inline CommandFault fault_of_bindings(
    std::span<const Binding> bindings, DeviceId device, const BindingLimits& limits = {}) noexcept {
  if (bindings.size() > kMaxBindings) return {CommandFault::Kind::too_many_bindings, 0};
  const Bytes longest = limits.length;
  const uint64_t offset_mask = limits.alignment.value - 1;
  for (const Binding& b : bindings) {
    const CommandFault::Kind kind = fault_of_binding(b, device, longest, offset_mask);
    if (kind != CommandFault::Kind::none) {
      return {kind, static_cast<uint32_t>(&b - bindings.data())};
    }
  }
  return {};
}

[[gnu::always_inline]] inline CommandFault fault_of_dispatch(const Pipeline* pipeline,
                                                             std::span<const Binding> bindings,
                                                             const Parameters& parameters,
                                                             const Groups& groups, DeviceId device,
                                                             const Groups& max_groups) noexcept {
  using enum CommandFault::Kind;
  if (pipeline == nullptr) return {no_pipeline};
  if (pipeline->device() != device) return {pipeline_of_other_device};
  uint64_t bytes = parameters.bytes.size();
  if (parameters.from_replay) {
    if (!parameters.replay_range.fits_in(kMaxBytes)) return {replay_range_overflows};
    bytes = parameters.replay_range.length.value;
  }
  if (bytes != pipeline->parameter_bytes().value || bindings.size() != pipeline->bindings()) {
    return {bytes > kMaxParameterBytes.value ? too_many_parameter_bytes : wrong_counts};
  }
  if (groups.x > max_groups.x || groups.y > max_groups.y || groups.z > max_groups.z) {
    return {grid_too_large};
  }
  return fault_of_bindings(bindings, device, pipeline->binding_limits());
}

}  // namespace holdfast::hal
