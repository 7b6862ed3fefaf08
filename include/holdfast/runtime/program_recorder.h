#pragma once

#include <span>
#include <string>

#include "holdfast/hal/program.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/hazards.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// Records commands once, with the barriers they need, to be sealed into a Program that
// Stream::replay runs. Distinct slots are assumed to be distinct memory; each replay checks that.
// The Program is a user of what it binds without a slot for as long as it lives. Belongs to one
// task.
class ProgramRecorder {
 public:
  ProgramRecorder(Ref<Context> context, std::string name);

  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  // Raises the failure if the device refuses. The recorder cannot be used any more afterwards.
  Ref<hal::Program> seal();

 private:
  void order(std::span<const hal::Binding> bindings);
  void check_open() const;

  Ref<Context> context_;
  hal::CommandList list_;
  HazardTracker hazards_;
  bool sealed_ = false;
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
