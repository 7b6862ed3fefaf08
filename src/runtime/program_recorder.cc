#include "holdfast/runtime/program_recorder.h"

#include <fmt/format.h>

#include <array>

#include "holdfast/base/error.h"

namespace holdfast::runtime {
namespace {

// Slots and Allocations share one space of keys; ids count up from one.
uint64_t key_of(const hal::Binding& binding) {
  return binding.allocation != nullptr ? binding.allocation->id().value
                                       : ~static_cast<uint64_t>(binding.slot);
}

Ref<Context> checked(Ref<Context> context) {
  if (!context) throw UsageError("a program recorder needs a context (was its Ref moved from?)");
  return context;
}

}  // namespace

ProgramRecorder::ProgramRecorder(Ref<Context> context, std::string name)
    : context_(checked(std::move(context))), list_(context_->device()->info(), std::move(name)) {
  list_.keep_users();
}

void ProgramRecorder::check_open() const {
  if (sealed_ || !context_) {
    throw UsageError("a program recorder was used after seal() or after it was moved from");
  }
}

void ProgramRecorder::order(std::span<const hal::Binding> bindings) {
  bool barrier = hazards_.reserve(bindings.size());
  for (const hal::Binding& b : bindings) {
    barrier = barrier || hazards_.conflicts(hazards_.entry(key_of(b)), b.range, b.access);
  }
  if (barrier && !list_.empty()) {
    list_.barrier();
    hazards_.next_wave();
  }
  for (const hal::Binding& b : bindings) hazards_.add(hazards_.entry(key_of(b)), b.range, b.access);
}

void ProgramRecorder::dispatch(const Ref<hal::Pipeline>& pipeline,
                               std::span<const hal::Binding> bindings,
                               const hal::Parameters& parameters, hal::Groups groups,
                               std::string_view label) {
  check_open();
  list_.check_dispatch(pipeline, bindings, parameters, groups, label);
  order(bindings);
  list_.dispatch_checked(pipeline, bindings, parameters, groups, label);
}

void ProgramRecorder::copy(const hal::Binding& from, const hal::Binding& to,
                           std::string_view label) {
  check_open();
  list_.check_copy(from, to, label);
  std::array ends{from, to};
  ends[0].access = hal::Access::read;
  ends[1].access = hal::Access::write;
  order(ends);
  list_.copy(ends[0], ends[1], label);
}

void ProgramRecorder::fill(const hal::Binding& to, std::byte value, std::string_view label) {
  check_open();
  list_.check_bindings({&to, 1}, label);
  hal::Binding target = to;
  target.access = hal::Access::write;
  order({&target, 1});
  list_.fill(target, value, label);
}

Ref<hal::Program> ProgramRecorder::seal() {
  check_open();
  sealed_ = true;
  return context_->device()->create_program(list_).or_raise();
}

}  // namespace holdfast::runtime
