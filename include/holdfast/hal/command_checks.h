#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/hal/command.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

struct CommandFault;

// What a command must be like to be recorded. Plain data: whoever checks needs no lock of the list
// that will have the command. Borrows the place's name.
class CommandChecks {
 public:
  // Where the command is to be recorded, for messages: "list 'step 3' (id 12)", "stream 'main'".
  struct Place {
    std::string_view kind;
    std::string_view name;
    ListId id{};  // none: it has none, or it is not known yet
  };
  CommandChecks(DeviceId device, const Groups& max_groups, const Place& place) noexcept
      : device_(device), max_groups_(max_groups), place_(place) {}

  // Each raises UsageError, naming the command and the limit.
  void dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                const Parameters& parameters, const Groups& groups, std::string_view label) const;
  void bindings(std::span<const Binding> bindings, std::string_view label) const;
  void copy(const Binding& from, const Binding& to, std::string_view label) const;

  // Raises for a fault of a dispatch that was found without the place.
  [[noreturn]] void refuse(const CommandFault& fault, const Ref<Pipeline>& pipeline,
                           std::span<const Binding> bindings, const Parameters& parameters,
                           const Groups& groups, std::string_view label) const;

  std::string place() const;
  // "a dispatch 'scale' in list 'step 3' (id 12)".
  std::string where(const char* verb, std::string_view label) const;

 private:
  DeviceId device_;
  Groups max_groups_;
  Place place_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
