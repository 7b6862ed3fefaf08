#include "holdfast/array/compile/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/array/node_recorder.h"
#include "holdfast/array/plan.h"
#include "holdfast/base/shown.h"
#include "holdfast/base/sync/task_local.h"
#include "holdfast/eval.h"

namespace holdfast::array {
namespace {

constinit const sync::TaskLocalPointer<Tracing> innermost_tracing;

void raise_if_failed(const Node& node) {
  if (node.state() == NodeState::failed) node.failure().raise();
}

}  // namespace

Tracing::Tracing(std::string shapeless) noexcept
    : before_(innermost_tracing.get()), shapeless_(std::move(shapeless)) {
  innermost_tracing.set(this);
}
Tracing::~Tracing() { innermost_tracing.set(before_); }
Tracing* Tracing::current() noexcept { return innermost_tracing.get(); }

void Tracing::refuse_lengths(const Array& array, const char* what) const {
  if (!made_.contains(array.value().get())) return;
  throw UsageError(fmt::format(
      "{} is shapeless, and {} names lengths or positions of an array that is made inside: "
      "compile it without shapeless, or leave that to another function",
      shapeless_, what));
}

size_t Trace::place_of(const Value& value) const {
  const auto found = places_.find(&value);
  return found == places_.end() ? placeholders.size() : found->second;
}

Trace::Trace(std::vector<Array> given, std::vector<Array> returned)
    : placeholders(std::move(given)), results(std::move(returned)) {
  for (const Array& array : placeholders) places_.emplace(array.value().get(), places_.size());
  evaluate_constants();
  Plan plan(results);
  std::unordered_set<const Value*> seen;
  for (const Array& array : placeholders) seen.insert(array.value().get());
  const auto add_constant = [&](const Array& array) {
    if (seen.insert(array.value().get()).second) constants.emplace_back(array.value());
  };
  for (const Plan::Step& step : plan.steps()) {
    Node& node = *step.node;
    if (node.outputs() == 1 && seen.contains(&node.output(0))) continue;  // a placeholder
    Node::Pin pin(node);
    // Constants are recorded by now; of all else nothing can be but failed.
    if (!pin) node.failure().raise();
    for (const Array& input : node.inputs()) {
      if (seen.contains(input.value().get())) continue;
      raise_if_failed(input.value()->node());
      add_constant(input);
    }
    for (size_t i = 0; i < node.outputs(); ++i) seen.insert(&node.output(i));
    steps.push_back({step.node, std::move(pin), step.wave});
  }
  for (const Array& result : results) {
    if (seen.contains(result.value().get())) continue;
    raise_if_failed(result.value()->node());
    add_constant(result);
  }
}

void Trace::evaluate_constants() {
  Plan plan(results);
  std::unordered_set<const Node*> dependent;
  for (const Array& array : placeholders) dependent.insert(&array.value()->node());
  std::vector<Array> constant;
  const auto add = [&](const Array& array) {
    Node& node = array.value()->node();
    if (!node.is_over() && !dependent.contains(&node)) constant.push_back(array);
  };
  for (const Plan::Step& step : plan.steps()) {
    const Node::Pin pin(*step.node);
    if (!pin || dependent.contains(step.node.get())) continue;
    const NodeInputs& inputs = step.node->inputs();
    const bool depends = std::ranges::any_of(
        inputs, [&](const Array& input) { return dependent.contains(&input.value()->node()); });
    if (!depends) continue;
    dependent.insert(step.node.get());
    for (const Array& input : inputs) add(input);
  }
  for (const Array& result : results) add(result);
  if (!constant.empty()) async_eval(constant);
}

std::string Trace::obstacle(const DeviceState& device) const {
  if (!met_obstacle.empty()) return met_obstacle;
  const std::vector<Node::Spent> none;
  kernel::Resolver resolver;
  NodeRecorder recorder(none, resolver);
  for (const Step& step : steps) {
    if (&step.node->stream()->device() != &device) {
      return fmt::format("{} runs on device '{}'", step.node->describe(),
                         step.node->stream()->device().name);
    }
    recorder.look(*step.node);
    if (recorder.calls_native()) {
      return fmt::format("{} records native commands", step.node->describe());
    }
  }
  const auto elsewhere = std::ranges::find_if(constants, [&](const Array& constant) {
    return &constant.value()->node().stream()->device() != &device;
  });
  if (elsewhere == constants.end()) return {};
  return fmt::format("it uses an array on device '{}'",
                     elsewhere->value()->node().stream()->device().name);
}

namespace {

// ValueNumbers for values, in the order in which a trace meets them.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Trace& trace) {
    for (const Array& array : trace.placeholders) add(array);
    for (const Array& array : trace.constants) add(array);
    for (const Trace::Step& step : trace.steps) {
      for (size_t i = 0; i < step.node->outputs(); ++i) add(&step.node->output(i));
    }
  }
  size_t of(const Array& array) const { return numbers_.at(array.value().get()); }

 private:
  void add(const Array& array) { add(array.value().get()); }
  void add(const Value* value) { numbers_.emplace(value, numbers_.size()); }
  std::unordered_map<const Value*, size_t> numbers_;
};

bool same_use(const Array& a, const ValueNumbers& in_a, const Array& b, const ValueNumbers& in_b) {
  return in_a.of(a) == in_b.of(b) && a.layout() == b.layout();
}

std::string constant_named(const Array& constant, size_t number) {
  const std::string name = constant.name();
  return name.empty() ? fmt::format("constant {} (shape {})", number, to_string(constant.shape()))
                      : fmt::format("constant {}", shown(name));
}

// "'add' to float32(3, 4)"
std::string signature_of(Node& node) {
  std::string text = shown(node.operation().name());
  for (size_t i = 0; i < node.outputs(); ++i) {
    text += fmt::format("{} {}{}", i == 0 ? " to" : ",", kernel::to_string(node.output(i).dtype()),
                        to_string(node.output(i).shape()));
  }
  return text;
}

bool have_equal_elements(const Array& a, const Array& b) {
  std::vector<std::byte> of_a(a.nbytes().value);
  std::vector<std::byte> of_b(b.nbytes().value);
  a.copy_to(of_a);
  b.copy_to(of_b);
  return of_a == of_b;
}

}  // namespace

std::string difference(const Trace& a, const Trace& b) {
  const size_t count = std::min(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < count; ++i) {
    const std::string before = signature_of(*a.steps[i].node);
    const std::string now = signature_of(*b.steps[i].node);
    if (before != now) return fmt::format("operation {} was {} and is {} now", i, before, now);
  }
  if (a.steps.size() != b.steps.size()) {
    return fmt::format("it had {} operations and has {} now", a.steps.size(), b.steps.size());
  }
  if (a.constants.size() != b.constants.size() || a.results.size() != b.results.size()) {
    return fmt::format("it had {} constants and {} results, and has {} and {} now",
                       a.constants.size(), a.results.size(), b.constants.size(), b.results.size());
  }
  for (size_t i = 0; i < a.constants.size(); ++i) {
    const Array& before = a.constants[i];
    const Array& now = b.constants[i];
    if (before.value() == now.value()) continue;
    if (before.dtype() == now.dtype() && before.shape() == now.shape() &&
        have_equal_elements(before, now)) {
      continue;
    }
    return fmt::format(
        "{} is not what it was: constants are fixed when a function is traced; "
        "make it an argument or state",
        constant_named(before, i));
  }
  const ValueNumbers in_a(a);
  const ValueNumbers in_b(b);
  for (size_t i = 0; i < count; ++i) {
    const NodeInputs& before = a.steps[i].node->inputs();
    const NodeInputs& now = b.steps[i].node->inputs();
    bool same = before.size() == now.size();
    for (size_t k = 0; same && k < before.size(); ++k) {
      same = same_use(before[k], in_a, now[k], in_b);
    }
    if (!same) {
      return fmt::format("operation {}, {}, has other inputs now", i,
                         shown(a.steps[i].node->operation().name()));
    }
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (!same_use(a.results[i], in_a, b.results[i], in_b)) {
      return fmt::format("result {} is another array now", i);
    }
  }
  return {};
}

}  // namespace holdfast::array
