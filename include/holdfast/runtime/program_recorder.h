#pragma once

#include <span>
#include <string>

#include "holdfast/hal/program.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/hazards.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// Records commands once, with the barriers they need, to be sealed into a Program that
// Stream::replay runs. Distinct slots are taken to be distinct memory, which each replay checks.
// What is bound without a slot is used by the Program as long as it lives. Belongs to one task.
class ProgramRecorder {
 public:
  ProgramRecorder(Ref<Context> context, std::string name);

  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  // Raises what the device refuses. The recorder is used up: it records nothing any more.
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
