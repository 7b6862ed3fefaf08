#include "holdfast/array/compile/compiled_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/array/apply.h"
#include "holdfast/array/compile/argument.h"
#include "holdfast/array/node_recorder.h"
#include "holdfast/base/ablation.h"
#include "holdfast/base/log.h"
#include "holdfast/base/shown.h"

namespace holdfast::array {
namespace {

constexpr size_t kNotAnInput = SIZE_MAX;

}  // namespace

CompiledCall::CompiledCall(std::string name, std::shared_ptr<const Trace> trace, size_t arguments,
                           std::shared_ptr<const Trace> kept)
    : name_(std::move(name)),
      arguments_(arguments),
      has_state_(trace->placeholders.size() > arguments),
      input_of_(trace->placeholders.size(), kNotAnInput),
      constants_(trace->constants),
      kept_trace_(std::move(kept)) {
  for (const Trace::Step& step : trace->steps) {
    for (const Array& input : step.node->inputs()) {
      const size_t place = trace->place_of(*input.value());
      if (place == trace->placeholders.size() || input_of_[place] != kNotAnInput) continue;
      input_of_[place] = inputs_.size();
      inputs_.push_back(place);
    }
  }
  for (const Array& result : trace->results) {
    const Value* const value = result.value().get();
    const size_t place = trace->place_of(*value);
    if (place < trace->placeholders.size()) {
      results_.push_back({Source::Kind::placeholder, place, result.layout()});
      continue;
    }
    const auto constant = std::ranges::find(constants_, result.value(), &Array::value);
    if (constant != constants_.end()) {
      const auto index = static_cast<size_t>(constant - constants_.begin());
      results_.push_back({Source::Kind::constant, index, result.layout()});
      continue;
    }
    const auto found = std::ranges::find(outputs_, value);
    results_.push_back(
        {Source::Kind::output, static_cast<size_t>(found - outputs_.begin()), result.layout()});
    if (found != outputs_.end()) continue;
    outputs_.push_back(value);
    types_.push_back({value->shape(), value->dtype()});
    names_.push_back(value->name());
  }
  state_.lock()->trace = std::move(trace);
}

std::vector<Array> CompiledCall::call(std::span<const Array> arrays,
                                      Ref<StreamState> stream) const {
  std::vector<Array> made;
  if (!outputs_.empty()) {
    NodeInputs inputs;
    for (const size_t place : inputs_) inputs.push_back(arrays[place]);
    made = apply(Ref<const Operation>(this), std::move(inputs), types_, std::move(stream), {});
    for (size_t i = 0; i < made.size(); ++i) {
      if (!names_[i].empty()) made[i].set_name(names_[i]);
    }
  }
  std::vector<Array> results;
  results.reserve(results_.size());
  for (const Source& source : results_) {
    switch (source.kind) {
      case Source::Kind::output:
        results.push_back(made[source.index].with_layout(source.layout));
        break;
      case Source::Kind::constant:
        results.push_back(constants_[source.index].with_layout(source.layout));
        break;
      case Source::Kind::placeholder: {
        const Array& given = arrays[source.index];
        Layout layout = source.layout;
        if (elements(layout.shape) > 0) {
          layout.offset += elements_before(given.layout(), given.dtype());
        }
        results.push_back(Array(given.value()).with_layout(layout));
        break;
      }
    }
  }
  return results;
}

void CompiledCall::record(Encoder& encoder) const {
  NodeRecorder& recorder = encoder.recorder_;
  const std::shared_ptr<const RecordedProgram> program = find_or_make(recorder);
  if (!program) recorder.looks_only_ = true;
  if (recorder.looks_only_) return;
  bind(encoder, *program);
  recorder.copies_ += program->copies;
  recorder.device_->replays.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<const RecordedProgram> CompiledCall::find_or_make(NodeRecorder& recorder) const {
  std::shared_ptr<const Trace> trace;
  {
    const auto state = state_.lock();
    if (state->program) return state->program;
    trace = state->trace;
  }
  // With no lock held. Where several tasks make it, the first one to finish wins.
  std::shared_ptr<const RecordedProgram> made = make(*trace, recorder);
  if (!made) return {};
  std::shared_ptr<const Trace> spent;  // goes with no lock held
  const auto state = state_.lock();
  if (!state->program) state->program = std::move(made);
  spent = std::exchange(state->trace, {});
  return state->program;
}

std::shared_ptr<const RecordedProgram> CompiledCall::make(const Trace& trace,
                                                          NodeRecorder& recorder) const {
  DeviceState& device = *recorder.device_;
  const std::vector<Node::Spent> none;
  NodeRecorder nested(none, recorder.resolver_);
  if (recorder.looks_only_) {
    for (const Trace::Step& step : trace.steps) nested.look(*step.node);
    return {};
  }
  // State whose elements lie in another order is copied into that of the node's result.
  std::vector<bool> takes(trace.placeholders.size(), false);
  for (size_t i = arguments_; i < takes.size(); ++i) {
    takes[i] = trace.placeholders[i].is_row_contiguous();
  }
  for (;;) {
    Capture captured(trace, device, takes);
    if (!capture(trace, captured, nested)) return {};
    BoundMemory bound;
    std::vector<RecordedProgram::Donated> donated;
    for (size_t i = 0; i < trace.placeholders.size(); ++i) {
      const hal::Allocation* const memory =
          captured.memory_of(*trace.placeholders[i].value()).get();
      bound[memory] = {SlotSource::Kind::argument, i};
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      SlotSource& source = bound[captured.memory_of(*outputs_[i]).get()];
      if (source.kind == SlotSource::Kind::argument) donated.push_back({source.index, i});
      source = {SlotSource::Kind::output, i};
    }
    // State that is overwritten and not returned has nowhere to go: such state is left alone.
    bool all_returned = true;
    for (size_t step = 0; step < trace.steps.size(); ++step) {
      for (const hal::Command& command : captured.commands(step)) {
        for (const hal::BoundRange& b : command.bindings()) {
          const auto found = bound.find(b.allocation);
          if (found == bound.end() || found->second.kind != SlotSource::Kind::argument) continue;
          if (!hal::writes(b.access)) continue;
          takes[found->second.index] = false;
          all_returned = false;
        }
      }
    }
    if (!all_returned) continue;
    auto program = std::make_shared<RecordedProgram>(
        write_program(captured, trace, bound, *device.context->device(), name_));
    program->donated = std::move(donated);
    logging::note(logging::Topic::compile,
                  "{}: a program of {} operations in {} submissions, with {} for intermediates",
                  shown(name_), trace.steps.size(), program->segments.size(),
                  to_string(program->arena));
    return program;
  }
}

bool CompiledCall::capture(const Trace& trace, Capture& into, NodeRecorder& nested) const {
  bool lacking = false;
  for (const Trace::Step& step : trace.steps) {
    Node& node = *step.node;
    if (lacking) {
      nested.look(node);
      continue;
    }
    try {
      lacking = nested.record_into(into, node) == NodeRecorder::Outcome::lacking;
    } catch (const InterruptedError&) {
      throw;
    } catch (const TimeoutError&) {
      throw;
    } catch (const Error& error) {
      const std::string message = error.what();
      if (message.find(node.describe()) != std::string::npos) throw;
      Failure(error.code(), fmt::format("{}: {}", node.describe(), message)).raise();
    }
  }
  return !lacking;
}

void CompiledCall::bind(Encoder& encoder, const RecordedProgram& program) const {
  using Kind = SlotSource::Kind;
  for (const RecordedProgram::Donated& state : program.donated) {
    // On its way through the function it may have been reshaped.
    (void)encoder.recorder_.take(input_of_[state.placeholder], state.output,
                                 NodeRecorder::Taking::reshaped);
  }
  std::vector<std::vector<hal::Binding>> slots;
  std::optional<Operand> arena;
  hal::Binding in_arena;
  for (const RecordedProgram::Segment& segment : program.segments) {
    std::vector<hal::Binding>& bindings = slots.emplace_back();
    for (const SlotSource& source : segment.slots) {
      if (source.kind == Kind::argument) {
        const Operand& in = encoder.input(input_of_[source.index]);
        const Bytes first =
            size_of(in.dtype()) * static_cast<uint64_t>(elements_before(in.layout(), in.dtype()));
        bindings.push_back(
            hal::Binding::of(in.memory_, {first, in.memory_->size() - first}, hal::Access::read));
      } else if (source.kind == Kind::output) {
        bindings.push_back(
            hal::Binding::of(encoder.output(source.index).memory_, hal::Access::read_write));
      } else {
        if (!arena) {
          arena = encoder.scratch(program.arena);
          in_arena = hal::Binding::of(arena->memory_, hal::Access::read_write);
        }
        bindings.push_back(in_arena);
      }
    }
  }
  // Nothing is submitted before there is memory for everything.
  (void)encoder.all_outputs();
#ifdef HOLDFAST_ABLATIONS
  if (arena && ablated(Ablation::arena_shared_by_replays)) {
    const auto first = shared_arena_.lock();
    if (!*first) *first = arena->memory_;
    // As if nobody had used it yet.
    (*first)->history() = hal::AccessHistory((*first)->id());
    for (size_t i = 0; i < slots.size(); ++i) {
      for (size_t k = 0; k < slots[i].size(); ++k) {
        if (program.segments[i].slots[k].kind != Kind::arena) continue;
        slots[i][k] = hal::Binding::of(*first, hal::Access::read_write);
      }
    }
  }
#endif
  for (size_t i = 0; i < slots.size(); ++i) {
    encoder.recorder_.replay(program.segments[i].program, slots[i]);
  }
}

}  // namespace holdfast::array
