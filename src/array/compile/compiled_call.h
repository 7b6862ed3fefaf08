#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/array/compile/program_writer.h"
#include "holdfast/array/compile/trace.h"
#include "holdfast/base/sync/mutex.h"

namespace holdfast::array {

// The operation of a compiled function's calls with one signature. The first one that is recorded
// makes the program; all of them replay it. Thread-safe.
class CompiledCall final : public Operation {
 public:
  // Placeholders: those of the arguments, then those of the state. Results: the function's, then
  // the new state. `kept`: for trace(); null: there is none.
  CompiledCall(std::string name, std::shared_ptr<const Trace> trace, size_t arguments,
               std::shared_ptr<const Trace> kept);

  // Results and new state of a call with these arrays, which have the signature, in the order of
  // the placeholders and results.
  std::vector<Array> call(std::span<const Array> arrays, Ref<StreamState> stream) const;

  std::string_view name() const noexcept override { return name_; }
  bool takes_inputs() const noexcept override { return has_state_; }
  void record(Encoder& encoder) const override;

  // What the function did when it was traced; only if that is kept.
  const Trace& trace() const { return *kept_trace_; }

 private:
  // Where a result comes from, and which elements of it.
  struct Source {
    enum class Kind : uint8_t { output, placeholder, constant } kind = Kind::output;
    size_t index = 0;
    Layout layout;
  };
  struct State {
    std::shared_ptr<const Trace> trace;  // until there is a program
    std::shared_ptr<const RecordedProgram> program;
  };

  std::shared_ptr<const RecordedProgram> find_or_make(NodeRecorder& recorder) const;
  // Null where kernels are missing, which the resolver then knows.
  std::shared_ptr<const RecordedProgram> make(const Trace& trace, NodeRecorder& recorder) const;
  bool capture(const Trace& trace, Capture& into, NodeRecorder& nested) const;
  void bind(Encoder& encoder, const RecordedProgram& program) const;

  const std::string name_;
  const size_t arguments_;
  bool has_state_;
  std::vector<size_t> inputs_;         // of the node: which placeholders these are
  std::vector<size_t> input_of_;       // for each placeholder its number among the inputs
  std::vector<OutputType> types_;      // of the node's outputs
  std::vector<const Value*> outputs_;  // of the trace, as long as there is one
  std::vector<std::string> names_;     // that the function gave them
  std::vector<Source> results_;
  // Users: nobody takes their memory as long as calls may come.
  std::vector<Array> constants_;
  std::shared_ptr<const Trace> kept_trace_;
  mutable sync::Guarded<State> state_;
#ifdef HOLDFAST_ABLATIONS
  mutable sync::Guarded<Ref<hal::Allocation>> shared_arena_;
#endif
};

}  // namespace holdfast::array
