#include "holdfast/runtime/transaction.h"

#include <algorithm>
#include <array>

#include "holdfast/base/error.h"
#include "holdfast/runtime/core.h"
#include "holdfast/runtime/recorder.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::runtime {
namespace {

// Pipelines of earlier commits that are kept: the next operation may well use them, and counting
// their users is a write that all threads share.
constexpr size_t kKeptPipelines = 4;

}  // namespace

Transaction::Transaction(Ref<Stream> stream, MemoryUser memory_user)
    : stream_(std::move(stream)), memory_user_(memory_user) {}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&&) noexcept = default;
Transaction::~Transaction() = default;

bool Transaction::empty() const noexcept { return commands_.empty(); }

void Transaction::add(PendingCommand command) {
  if (!stream_) throw UsageError("a transaction was used after it was moved from");
  stream_->context()->core().check_usable();
  stream_->recorder_->check(command);
  command.checked = true;
  const size_t bindings = bindings_.size();
  const size_t parameters = parameters_.size();
  const size_t letters = labels_.size();
  const std::span<const std::byte> bytes = command.parameters.bytes;
  try {
    if (memory_user_ == MemoryUser::transaction) {
      for (const hal::Binding& b : command.bindings) users_.emplace_back(b.allocation);
    }
    if (command.pipeline != nullptr) command.pipeline = &keep(*command.pipeline);
    bindings_.insert(bindings_.end(), command.bindings.begin(), command.bindings.end());
    parameters_.insert(parameters_.end(), bytes.begin(), bytes.end());
    labels_ += command.label;
    commands_.push_back(std::move(command));
  } catch (...) {  // no memory: as if it had not been asked for
    bindings_.resize(bindings);
    parameters_.resize(parameters);
    labels_.resize(letters);
    throw;
  }
}

const Ref<hal::Pipeline>& Transaction::keep(const Ref<hal::Pipeline>& pipeline) {
  const auto kept = std::find(pipelines_.begin(), pipelines_.end(), pipeline);
  return kept != pipelines_.end() ? *kept : pipelines_.emplace_back(pipeline);
}

void Transaction::settle() {
  size_t binding = 0;
  size_t parameter = 0;
  size_t letter = 0;
  for (PendingCommand& command : commands_) {
    command.bindings = std::span(bindings_).subspan(binding, command.bindings.size());
    binding += command.bindings.size();
    const size_t bytes = command.parameters.bytes.size();
    command.parameters.bytes = std::span(parameters_).subspan(parameter, bytes);
    parameter += bytes;
    command.label = std::string_view(labels_).substr(letter, command.label.size());
    letter += command.label.size();
  }
}

void Transaction::dispatch(const Ref<hal::Pipeline>& pipeline,
                           std::span<const hal::Binding> bindings,
                           const hal::Parameters& parameters, hal::Groups groups,
                           std::string_view label) {
  add({hal::CommandKind::dispatch, &pipeline, bindings, parameters, groups, {}, {}, label});
}

void Transaction::copy(const hal::Binding& from, const hal::Binding& to, std::string_view label) {
  std::array ends{from, to};
  ends[0].access = hal::Access::read;
  ends[1].access = hal::Access::write;
  add({hal::CommandKind::copy, {}, ends, {}, {}, {}, {}, label});
}

void Transaction::fill(const hal::Binding& to, std::byte value, std::string_view label) {
  hal::Binding target = to;
  target.access = hal::Access::write;
  add({hal::CommandKind::fill, {}, {&target, 1}, {}, {}, value, {}, label});
}

void Transaction::native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
                         std::string_view label) {
  if (!callback) throw UsageError("a native command was given an empty callback");
  add({hal::CommandKind::native,
       {},
       bindings,
       {},
       {},
       {},
       std::make_shared<const hal::NativeCallback>(std::move(callback)),
       label});
}

Ref<hal::Allocation> Transaction::scratch(Bytes size, std::string name) {
  if (!stream_) throw UsageError("a transaction was used after it was moved from");
  users_.push_back(stream_->allocate(size, std::move(name)));
  return users_.back();
}

void Transaction::commit() {
  if (!stream_) throw UsageError("a transaction was used after it was moved from");
  if (!commands_.empty()) {
    settle();
    stream_->record(commands_);
  }
  roll_back();
}

void Transaction::append_to(hal::CommandList& list) {
  settle();
  for (const PendingCommand& command : commands_) {
    switch (command.kind) {
      case hal::CommandKind::dispatch:
        list.dispatch_checked(*command.pipeline, command.bindings, command.parameters,
                              command.groups, command.label);
        break;
      case hal::CommandKind::copy:
        list.copy(command.bindings[0], command.bindings[1], command.label);
        break;
      case hal::CommandKind::fill:
        list.fill(command.bindings[0], command.fill_value, command.label);
        break;
      default: list.native(command.native, command.bindings, command.label); break;
    }
  }
}

void Transaction::roll_back() noexcept {
  commands_.clear();
  bindings_.clear();
  parameters_.clear();
  labels_.clear();
  users_.clear();
  if (pipelines_.size() > kKeptPipelines) pipelines_.clear();
}

}  // namespace holdfast::runtime
