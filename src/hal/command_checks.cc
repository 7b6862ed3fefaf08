#include "holdfast/hal/command_checks.h"

#include <fmt/format.h>

#include <array>

#include "holdfast/base/error.h"
#include "holdfast/hal/command_fault.h"

namespace holdfast::hal {
namespace {

// Of those that any command can have with a binding.
std::string words_of_binding(const CommandFault& fault, std::span<const Binding> bindings) {
  using enum CommandFault::Kind;
  const size_t i = fault.binding;
  if (fault.kind == too_many_bindings) {
    return fmt::format("{} bindings were given, and a command has at most {}", bindings.size(),
                       kMaxBindings);
  }
  const Binding& b = bindings[i];
  switch (fault.kind) {
    case allocation_and_slot:
      return fmt::format("binding {} names both {} and slot {}", i, b.allocation->describe(),
                         b.slot);
    case slot_out_of_range:
      return fmt::format(
          "binding {} asks for {} bytes from byte {} of slot {}; slots are numbered below {}, and "
          "a range must end within 64 bits",
          i, b.range.length.value, b.range.offset.value, b.slot, kMaxSlots);
    case allocation_of_other_device:
      return fmt::format("binding {}, {}, belongs to another device", i, b.allocation->describe());
    case beyond_allocation:
      return fmt::format("binding {} asks for {} bytes from byte {} of {}, which has {} bytes", i,
                         b.range.length.value, b.range.offset.value, b.allocation->describe(),
                         b.allocation->size().value);
    default: return fmt::format("binding {} names no allocation (was its Ref moved from?)", i);
  }
}

}  // namespace

std::string CommandChecks::place() const {
  return place_.id ? fmt::format("{} '{}' (id {})", place_.kind, place_.name, place_.id.value)
                   : fmt::format("{} '{}'", place_.kind, place_.name);
}

std::string CommandChecks::where(const char* verb, std::string_view label) const {
  return label.empty() ? fmt::format("{} in {}", verb, place())
                       : fmt::format("{} '{}' in {}", verb, label, place());
}

void CommandChecks::bindings(std::span<const Binding> bindings, std::string_view label) const {
  const CommandFault fault = fault_of_bindings(bindings, device_);
  if (fault) [[unlikely]] {
    throw UsageError(
        fmt::format("{}: {}", where("a command", label), words_of_binding(fault, bindings)));
  }
}

void CommandChecks::dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                             const Parameters& parameters, const Groups& groups,
                             std::string_view label) const {
  const CommandFault fault =
      fault_of_dispatch(pipeline.get(), bindings, parameters, groups, device_, max_groups_);
  if (fault) [[unlikely]] {
    refuse(fault, pipeline, bindings, parameters, groups, label);
  }
}

void CommandChecks::refuse(const CommandFault& fault, const Ref<Pipeline>& pipeline,
                           std::span<const Binding> bindings, const Parameters& parameters,
                           const Groups& groups, std::string_view label) const {
  using enum CommandFault::Kind;
  const uint64_t bytes =
      parameters.from_replay ? parameters.replay_range.length.value : parameters.bytes.size();
  std::string what;
  switch (fault.kind) {
    case no_pipeline: what = "no kernel was given (was its Ref moved from?)"; break;
    case pipeline_of_other_device:
      what = fmt::format("{} belongs to another device", pipeline->describe());
      break;
    case replay_range_overflows:
      what = fmt::format(
          "{} is to take {} bytes from byte {} of a replay's parameters, which ends beyond 64 "
          "bits",
          pipeline->describe(), bytes, parameters.replay_range.offset.value);
      break;
    case too_many_parameter_bytes:
      what = fmt::format("{} bytes of parameters were given to {}, and the limit is {}", bytes,
                         pipeline->describe(), kMaxParameterBytes.value);
      break;
    case wrong_counts:
      what = fmt::format("{} takes {} bindings and {} bytes of parameters; it was given {} and {}",
                         pipeline->describe(), pipeline->bindings(),
                         pipeline->parameter_bytes().value, bindings.size(), bytes);
      break;
    case grid_too_large:
      what = fmt::format(
          "a grid of {}x{}x{} groups was given to {}, and the device's limit is {}x{}x{}", groups.x,
          groups.y, groups.z, pipeline->describe(), max_groups_.x, max_groups_.y, max_groups_.z);
      break;
    case misaligned: {
      const Binding& b = bindings[fault.binding];
      const Bytes offset = b.range.offset + (b.allocation ? b.allocation->offset() : Bytes{});
      what = fmt::format(
          "binding {} of {} begins at byte {} of its buffer, and on this device that must be a "
          "multiple of {}",
          fault.binding, pipeline->describe(), offset.value,
          pipeline->binding_limits().alignment.value);
      break;
    }
    case too_long:
      what = fmt::format(
          "binding {} of {} is {} long, and this device's kernels reach at most {} through one "
          "binding; bind parts of it",
          fault.binding, pipeline->describe(), to_string(bindings[fault.binding].range.length),
          to_string(pipeline->binding_limits().length));
      break;
    default:
      throw UsageError(
          fmt::format("{}: {}", where("a command", label), words_of_binding(fault, bindings)));
  }
  throw UsageError(fmt::format("{}: {}", where("a dispatch", label), what));
}

void CommandChecks::copy(const Binding& from, const Binding& to, std::string_view label) const {
  bindings(std::array{from, to}, label);
  if (from.range.length != to.range.length) {
    throw UsageError(fmt::format("{}: {} bytes cannot be copied to a range of {}",
                                 where("a copy", label), from.range.length.value,
                                 to.range.length.value));
  }
  const bool same = from.allocation == to.allocation && from.slot == to.slot;
  if (same && from.range.overlaps(to.range)) {
    throw UsageError(
        fmt::format("{}: source and destination overlap in {}; copy through a third range",
                    where("a copy", label),
                    from.allocation != nullptr ? from.allocation->describe()
                                               : fmt::format("slot {}", from.slot)));
  }
}

}  // namespace holdfast::hal
