#include "holdfast/array/apply.h"

#include <fmt/format.h>

#include "holdfast/array/compile/trace.h"
#include "holdfast/array/current_stream.h"
#include "holdfast/base/shown.h"

namespace holdfast {
namespace array {

namespace {

DeviceState& device_of(const Array& array) { return array.value()->node().stream()->device(); }

// "input 1 'weights'"
std::string named(std::span<const Array> inputs, size_t i) {
  const std::string name = inputs[i].name();
  return name.empty() ? fmt::format("input {}", i) : fmt::format("input {} {}", i, shown(name));
}

// Two devices may have one name: those that device() gives, and any number that users open.
const char* told_apart(const DeviceState& a, const DeviceState& b) {
  return a.name == b.name ? ", another device of that name, opened separately" : "";
}

}  // namespace

Ref<StreamState> stream_for(std::span<const Array> inputs, const On& on) {
  StreamState* of_inputs = nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    (void)inputs[i].dtype();  // raises where there is no array
    StreamState* const stream = inputs[i].value()->node().stream().get();
    if (of_inputs != nullptr && &of_inputs->device() != &stream->device()) {
      const DeviceState& first = device_of(inputs[0]);
      const DeviceState& other = stream->device();
      throw UsageError(fmt::format(
          "inputs are on two devices: {} is on '{}', and {} is on '{}'{}; bring them together with "
          "to_device",
          named(inputs, 0), first.name, named(inputs, i), other.name, told_apart(first, other)));
    }
    of_inputs = stream;
  }
  if (on.state()) {
    if (of_inputs != nullptr && &of_inputs->device() != &on.state()->device()) {
      const DeviceState& first = device_of(inputs[0]);
      const DeviceState& other = on.state()->device();
      throw UsageError(
          fmt::format("{} is on device '{}', and the stream is of '{}'{}; use to_device",
                      named(inputs, 0), first.name, other.name, told_apart(first, other)));
    }
    return on.state().ref();
  }
  if (const Stream* const current = current_stream()) {
    if (of_inputs == nullptr || &of_inputs->device() == &current->state()->device()) {
      return current->state().ref();
    }
  }
  return of_inputs != nullptr ? of_inputs->home() : default_device().home().ref();
}

namespace {

void note_made(std::span<const Array> results) {
  if (Tracing* const tracing = Tracing::current()) {
    for (const Array& array : results) tracing->add_made(*array.value());
  }
}

}  // namespace

std::vector<Array> apply(Ref<const Operation> operation, NodeInputs&& inputs,
                         std::span<const OutputType> outputs, Ref<StreamState> stream,
                         std::string&& label) {
  if (outputs.size() == 1) {
    std::vector<Array> result;
    result.reserve(1);
    result.emplace_back(Node::make_one(std::move(operation), std::move(inputs), outputs[0],
                                       std::move(stream), std::move(label)));
    note_made(result);
    return result;
  }
  const Ref<Node> node = Node::make(std::move(operation), std::move(inputs), outputs,
                                    std::move(stream), std::move(label));
  std::vector<Array> results;
  results.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) results.emplace_back(node->first_user(i));
  note_made(results);
  return results;
}

Array apply(Ref<const Operation> operation, NodeInputs&& inputs, const OutputType& output,
            const On& on) {
  Ref<StreamState> stream = stream_for({inputs.data(), inputs.size()}, on);
  Array result(
      Node::make_one(std::move(operation), std::move(inputs), output, std::move(stream), {}));
  note_made({&result, 1});
  return result;
}

namespace {

void check_operation(const Ref<const Operation>& operation) {
  if (!operation) throw UsageError("a node needs an operation (was its Ref moved from?)");
}

}  // namespace
}  // namespace array

std::vector<Array> apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
                         std::span<const OutputType> outputs, const On& on, std::string label) {
  array::check_operation(operation);
  if (outputs.empty()) {
    throw UsageError(fmt::format("a node of '{}' needs an output", operation->name()));
  }
  return array::apply(operation, array::NodeInputs(inputs.begin(), inputs.end()), outputs,
                      array::stream_for(inputs, on), std::move(label));
}

Array apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
            const OutputType& output, const On& on) {
  array::check_operation(operation);
  return array::apply(operation, array::NodeInputs(inputs.begin(), inputs.end()), output, on);
}

}  // namespace holdfast
