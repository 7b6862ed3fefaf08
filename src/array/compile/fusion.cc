#include "holdfast/array/compile/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "holdfast/array/apply.h"
#include "holdfast/array/compile/fused_operation.h"
#include "holdfast/array/layouts.h"
#include "holdfast/array/ops/exp_text.h"
#include "holdfast/base/shown.h"

namespace holdfast::array {
namespace {

using Role = FusedProgram::Role;
using Source = FusedProgram::Source;

// Fewer rows than this, of more elements than that, are better cut into pieces, each of them work
// of a thread or threadgroup of its own.
constexpr int64_t kFewRows = 64;
constexpr int64_t kLongRow = 16384;
// Squares from which on elements that are turned are better read as the operation alone does it.
constexpr int64_t kTurned = 16;
// Looked at for a way around, at most.
constexpr size_t kLongestSearch = 4096;

constexpr size_t kStepsOfSoftmax = 4;

int64_t last_of(const Shape& shape) { return shape.empty() ? 1 : shape[shape.size() - 1]; }

class Fuser {
 public:
  explicit Fuser(const Trace& trace) : trace_(trace), steps_(trace.steps.size()) {}

  Fused run() {
    look();
    for (size_t i = 0; i < steps_.size(); ++i) join(i);
    rebuild();
    return std::move(fused_);
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  struct Step {
    std::optional<ElementStep> element;
    std::optional<RowStep> row;
    size_t group = kNone;  // of those that are looked for: itself at first
    Role role = Role::element;
    std::vector<size_t> producers;  // for each input the step that makes it, if any
    std::vector<size_t> consumers;
    bool is_result = false;
  };
  struct Group {
    std::vector<size_t> members;  // in order
    Shape shape;
    bool can_grow = false;
    size_t consumed_by_search = 0;
  };

  const NodeInputs& inputs_of(size_t i) const { return trace_.steps[i].node->inputs(); }
  Value& value_of(size_t i) const { return trace_.steps[i].node->output(0); }

  void look() {
    std::unordered_map<const Value*, size_t> made_by;
    for (size_t i = 0; i < steps_.size(); ++i) {
      Node& node = *trace_.steps[i].node;
      Step& step = steps_[i];
      for (size_t o = 0; o < node.outputs(); ++o) made_by.emplace(&node.output(o), i);
      for (const Array& input : node.inputs()) {
        const auto found = made_by.find(input.value().get());
        step.producers.push_back(found == made_by.end() ? kNone : found->second);
        if (found != made_by.end()) steps_[found->second].consumers.push_back(i);
      }
      step.group = i;
      Group& group = groups_.emplace_back();
      group.members = {i};
      if (node.outputs() != 1 || node.output(0).bytes() == Bytes{}) continue;
      if (const auto* const element = dynamic_cast<const ElementOperation*>(&node.operation())) {
        if (has_turned_inputs(node)) continue;
        step.element = element->element_step();
        group.shape = node.output(0).shape();
        group.can_grow = true;
      } else if (const auto* const row = dynamic_cast<const RowOperation*>(&node.operation())) {
        look_at_rows(i, *row);
      }
    }
    for (const Array& result : trace_.results) {
      const auto found = made_by.find(result.value().get());
      if (found != made_by.end()) steps_[found->second].is_result = true;
    }
  }

  void look_at_rows(size_t i, const RowOperation& operation) {
    Node& node = *trace_.steps[i].node;
    const Array& input = node.inputs()[0];
    std::string why;
    std::optional<RowStep> row;
    const int64_t length = last_of(input.shape());
    if (input.size() == 0 || length == 1) {
      why = "its rows have one element at most";
    } else {
      row = operation.row_step(input.shape(), input.dtype(), why);
    }
    if (row && length > kLongRow && input.size() / length < kFewRows) {
      why = fmt::format("it has {} rows of {} elements, which are worked on in pieces",
                        input.size() / length, length);
      row.reset();
    }
    if (!row) {
      fused_.notes.push_back(fmt::format("{} stays alone: {}", node.describe(), why));
      return;
    }
    Group& group = groups_[i];
    steps_[i].row = row;
    steps_[i].role = row->kind == RowKind::softmax ? Role::element : Role::reduction;
    group.shape = input.shape();
    group.can_grow = true;
  }

  // Operands whose lines are what lies side by side.
  static bool has_turned_inputs(Node& node) {
    const Shape& shape = node.output(0).shape();
    if (shape.size() < 2 || last_of(shape) < kTurned || shape[shape.size() - 2] < kTurned) {
      return false;
    }
    return std::ranges::any_of(node.inputs(), [&](const Array& input) {
      if (input.size() == 1 || input.is_row_contiguous()) return false;
      const Layout layout = broadcast_to(input.layout(), shape);
      const int64_t step = std::abs(layout.strides[shape.size() - 1]);
      const int64_t down = std::abs(layout.strides[shape.size() - 2]);
      return 0 < down && down < step;
    });
  }

  // --- joining ----------------------------------------------------------------------------------

  void join(size_t i) {
    Step& step = steps_[i];
    if (!step.element && !step.row) return;
    joined_ = i;
    if (step.element) {
      for (const size_t producer : step.producers) {
        if (producer != kNone && join_as_of_row(i, steps_[producer].group)) return;
      }
    }
    for (const size_t producer : step.producers) {
      if (producer == kNone) continue;
      const size_t other = steps_[producer].group;
      if (other == step.group || !groups_[other].can_grow) continue;
      if (groups_[other].shape != groups_[step.group].shape) continue;
      if (can_unite(other, step.group)) unite(other, step.group);
    }
  }

  // Whether input k of `i`, which `producer` makes, is read as a kernel has it: element by element,
  // a value of the row by all of that, or by what is of the row, too.
  bool reads_in_place(size_t i, size_t k, size_t producer, const Shape& shape) const {
    const Array& input = inputs_of(i)[k];
    const bool makes_elements = steps_[producer].role == Role::element;
    if (steps_[i].role == Role::of_row) {
      const int64_t rows = elements(shape) / last_of(shape);
      return !makes_elements && input.size() == rows && input.is_row_contiguous();
    }
    if (makes_elements) return input.shape() == shape && input.is_row_contiguous();
    return !steps_[i].row && is_stretched_along_rows(input.layout(), shape);
  }

  // Of one value for each row, in order.
  static bool is_stretched_along_rows(const Layout& values, const Shape& shape) {
    if (values.offset != 0) return false;
    const Layout layout = broadcast_to(values, shape);
    if (layout.strides[shape.size() - 1] != 0) return false;
    int64_t expected = 1;
    for (size_t axis = shape.size() - 1; axis-- > 0;) {
      if (shape[axis] == 1) continue;
      if (layout.strides[axis] != expected) return false;
      expected *= shape[axis];
    }
    return true;
  }

  // What is computed of values of rows alone.
  bool join_as_of_row(size_t i, size_t group) {
    const Group& to = groups_[group];
    if (!to.can_grow || to.shape.empty()) return false;
    const int64_t rows = elements(to.shape) / last_of(to.shape);
    if (elements(value_of(i).shape()) != rows) return false;
    bool is_of_row = false;
    for (size_t k = 0; k < inputs_of(i).size(); ++k) {
      const Array& input = inputs_of(i)[k];
      const size_t producer = steps_[i].producers[k];
      const bool inside = producer != kNone && steps_[producer].group == group;
      if (inside && steps_[producer].role == Role::element) return false;
      if (input.size() != 1 && (input.size() != rows || !input.is_row_contiguous())) return false;
      is_of_row |= inside;
    }
    if (!is_of_row) return false;
    steps_[i].role = Role::of_row;
    if (can_unite(group, steps_[i].group)) {
      unite(group, steps_[i].group);
      return true;
    }
    steps_[i].role = Role::element;
    return false;
  }

  bool can_unite(size_t a, size_t b) {
    const Group& first = groups_[a];
    const Group& second = groups_[b];
    const StreamState& stream = *trace_.steps[first.members[0]].node->stream();
    if (&trace_.steps[second.members[0]].node->stream()->device() != &stream.device()) return false;
    std::vector<size_t> members = first.members;
    members.insert(members.end(), second.members.begin(), second.members.end());
    size_t arguments = 0;
    size_t steps = 0;
    std::vector<const Array*> known;
    for (const size_t i : members) {
      steps += steps_[i].row && steps_[i].row->kind == RowKind::softmax ? kStepsOfSoftmax : 1;
      if (leaves(i, a, b)) ++arguments;
      for (size_t k = 0; k < inputs_of(i).size(); ++k) {
        const size_t producer = steps_[i].producers[k];
        const size_t from = producer == kNone ? kNone : steps_[producer].group;
        if (from == a || from == b) {
          if (!reads_in_place(i, k, producer, first.shape)) return false;
          continue;
        }
        const Array& input = inputs_of(i)[k];
        const bool is_known = std::ranges::any_of(known, [&](const Array* other) {
          return other->value() == input.value() && other->layout() == input.layout();
        });
        if (!is_known) known.push_back(&input);
      }
    }
    if (steps > kMaxFusedSteps || arguments + known.size() > kMaxFusedArguments) return false;
    return !has_way_around(a, b) && !has_way_around(b, a);
  }
  bool leaves(size_t i, size_t a, size_t b) const {
    return steps_[i].is_result || std::ranges::any_of(steps_[i].consumers, [&](size_t consumer) {
             return steps_[consumer].group != a && steps_[consumer].group != b;
           });
  }

  // From one group to the other, through a third. True where looking for it takes too long. Steps
  // after the one that is joined are in no group with an earlier one: there is no way back.
  bool has_way_around(size_t from, size_t to) {
    ++search_;
    std::vector<size_t> open;
    size_t looked_at = 0;
    const auto visit_consumers = [&](size_t group) {
      for (const size_t i : groups_[group].members) {
        for (const size_t consumer : steps_[i].consumers) {
          if (consumer > joined_) continue;
          const size_t next = steps_[consumer].group;
          ++looked_at;
          if (next == from || groups_[next].consumed_by_search == search_) continue;
          if (next == to) {
            if (group != from) return true;
            continue;
          }
          groups_[next].consumed_by_search = search_;
          open.push_back(next);
        }
      }
      return false;
    };
    if (visit_consumers(from)) return true;
    while (!open.empty()) {
      const size_t group = open.back();
      open.pop_back();
      if (looked_at > kLongestSearch || visit_consumers(group)) return true;
    }
    return false;
  }

  void unite(size_t into, size_t from) {
    std::vector<size_t>& members = groups_[into].members;
    for (const size_t i : groups_[from].members) {
      steps_[i].group = into;
      members.push_back(i);
    }
    std::ranges::sort(members);
    groups_[from].members.clear();
    groups_[from].can_grow = false;
  }

  // --- rebuilding -------------------------------------------------------------------------------

  // Groups, each after those whose results it needs.
  std::vector<size_t> order() const {
    std::vector<size_t> missing(groups_.size(), 0);
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const size_t producer : steps_[i].producers) {
        if (producer != kNone && steps_[producer].group != steps_[i].group) {
          ++missing[steps_[i].group];
        }
      }
    }
    std::vector<size_t> ready;
    for (size_t g = groups_.size(); g-- > 0;) {
      if (missing[g] == 0 && !groups_[g].members.empty()) ready.push_back(g);
    }
    std::vector<size_t> ordered;
    while (!ready.empty()) {
      const size_t group = ready.back();
      ready.pop_back();
      ordered.push_back(group);
      for (const size_t i : groups_[group].members) {
        for (const size_t consumer : steps_[i].consumers) {
          const size_t next = steps_[consumer].group;
          if (next == group) continue;
          // Once for each input that it has of this group.
          if (--missing[next] == 0) ready.push_back(next);
        }
      }
    }
    return ordered;
  }

  void rebuild() {
    for (const Array& array : trace_.placeholders) made_.emplace(array.value().get(), array);
    for (const Array& array : trace_.constants) made_.emplace(array.value().get(), array);
    for (const size_t group : order()) {
      if (groups_[group].members.size() == 1) {
        rebuild_node(groups_[group].members[0]);
      } else {
        rebuild_group(group);
      }
    }
    for (const Array& result : trace_.results) fused_.results.push_back(now(result));
  }

  // What has become of an array.
  Array now(const Array& array) const {
    const auto found = made_.find(array.value().get());
    if (found == made_.end() || found->second.value() == array.value()) return array;
    return found->second.with_layout(array.layout());
  }

  void rebuild_node(size_t i) {
    Node& node = *trace_.steps[i].node;
    NodeInputs inputs;
    bool changed = false;
    for (const Array& input : node.inputs()) {
      inputs.push_back(now(input));
      changed |= inputs.back().value() != input.value();
    }
    if (!changed) return;
    std::vector<OutputType> types;
    for (size_t o = 0; o < node.outputs(); ++o) {
      types.push_back({node.output(o).shape(), node.output(o).dtype()});
    }
    std::vector<Array> made =
        array::apply(Ref<const Operation>(&node.operation()), std::move(inputs), types,
                     node.stream(), std::string(node.label()));
    for (size_t o = 0; o < node.outputs(); ++o) set_made(node.output(o), std::move(made[o]));
  }

  void set_made(const Value& value, Array array) {
    if (!value.name().empty()) array.set_name(value.name());
    made_.insert_or_assign(&value, std::move(array));
  }

  void rebuild_group(size_t g) {
    const Group& group = groups_[g];
    FusedProgram program;
    program.shape = group.shape;
    NodeInputs inputs;
    std::unordered_map<size_t, size_t> step_of;  // of members, the last that makes their result
    std::string operations;
    for (const size_t i : group.members) {
      const auto source_of = [&](size_t k) {
        const size_t producer = steps_[i].producers[k];
        if (producer != kNone && steps_[producer].group == g) {
          return Source{Source::Kind::step, step_of.at(producer)};
        }
        return Source{Source::Kind::input,
                      input_number(program, inputs, inputs_of(i)[k], steps_[i].role)};
      };
      if (steps_[i].row) {
        step_of[i] = add_row_step(program, i, source_of(0));
      } else {
        step_of[i] = add_element_step(program, i, source_of);
      }
      operations += fmt::format("{}{}", operations.empty() ? "" : ", ",
                                trace_.steps[i].node->operation().name());
    }
    std::vector<OutputType> types;
    std::vector<size_t> leaving;
    for (const size_t i : group.members) {
      if (!leaves(i, g, g)) continue;
      program.outputs.push_back(step_of.at(i));
      leaving.push_back(i);
      types.push_back({value_of(i).shape(), value_of(i).dtype()});
    }
    const Ref<StreamState>& stream = trace_.steps[group.members[0]].node->stream();
    auto operation = make_ref<const FusedOperation>(std::move(program));
    fused_.notes.push_back(fmt::format("{} does the work of {} operations on shape {}: {}",
                                       shown(operation->name()), group.members.size(),
                                       to_string(group.shape), operations));
    ++fused_.kernels;
    fused_.operations += group.members.size();
    std::vector<Array> made =
        array::apply(std::move(operation), std::move(inputs), types, stream, {});
    for (size_t o = 0; o < leaving.size(); ++o) {
      set_made(value_of(leaving[o]), std::move(made[o]));
    }
  }

  size_t input_number(FusedProgram& program, NodeInputs& inputs, const Array& array,
                      Role role) const {
    const Array given = now(array);
    const bool of_row = role == Role::of_row;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].value() == given.value() && inputs[k].layout() == given.layout() &&
          program.inputs[k].of_row == of_row) {
        return k;
      }
    }
    inputs.push_back(given);
    program.inputs.push_back({given.dtype(), of_row});
    return inputs.size() - 1;
  }

  size_t add_element_step(FusedProgram& program, size_t i, const auto& source_of) const {
    const ElementStep& element = *steps_[i].element;
    FusedProgram::Step step{.role = steps_[i].role,
                            .expression = element.expression,
                            .computed = element.computed,
                            .result = element.result,
                            .chooses = element.chooses};
    for (const ElementStep::Operand& operand : element.operands) {
      if (operand.input) {
        step.operands.push_back(source_of(*operand.input));
      } else {
        step.operands.push_back({Source::Kind::number, program.numbers.size()});
        program.numbers.push_back(operand.number);
      }
    }
    program.steps.push_back(std::move(step));
    return program.steps.size() - 1;
  }

  // A softmax becomes the largest element, powers below it, their sum and a division. Nothing of
  // that is rounded but the result.
  size_t add_row_step(FusedProgram& program, size_t i, Source of) const {
    const RowStep& row = *steps_[i].row;
    const Dtype result = value_of(i).dtype();
    const auto add = [&](FusedProgram::Step step) {
      program.steps.push_back(std::move(step));
      return Source{Source::Kind::step, program.steps.size() - 1};
    };
    const auto reduce = [&](RowKind kind, Dtype to, Source what) {
      return add({.role = Role::reduction,
                  .expression = {trace_.steps[i].node->operation().name(), {}},
                  .computed = row.computed,
                  .result = to,
                  .reduction = kind,
                  .divisor = row.divisor,
                  .operands = {what}});
    };
    if (row.kind != RowKind::softmax) return reduce(row.kind, result, of).index;
    const auto element = [&](Expression expression, Dtype to, Source a, Source b) {
      return add(
          {.expression = expression, .computed = row.computed, .result = to, .operands = {a, b}});
    };
    const Source largest = reduce(RowKind::max, row.computed, of);
    // Below nothing but minus infinity there is zero.
    const Source power = element({.name = "exp",
                                  .text = "exp_of(a - (b == C(-INFINITY) ? C(0) : b))",
                                  .helpers = kExpOfText},
                                 row.computed, of, largest);
    const Source sum = reduce(RowKind::sum, row.computed, power);
    return element({.name = "divide", .text = "a / b"}, result, power, sum).index;
  }

  const Trace& trace_;
  std::vector<Step> steps_;
  std::vector<Group> groups_;  // numbered as the steps
  size_t joined_ = 0;          // the last step that was looked at
  size_t search_ = 0;
  std::unordered_map<const Value*, Array> made_;
  Fused fused_;
};

}  // namespace

Fused fuse(const Trace& trace) { return Fuser(trace).run(); }

}  // namespace holdfast::array
