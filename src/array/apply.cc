#include "holdfast/array/apply.h"

#include <fmt/format.h>

#include "holdfast/array/current_stream.h"

namespace holdfast {
namespace array {

Ref<StreamState> stream_for(std::span<const Array> inputs, const On& on) {
  StreamState* of_inputs = nullptr;
  for (const Array& input : inputs) {
    (void)input.dtype();  // raises where there is no array
    StreamState* const stream = input.value()->node().stream().get();
    if (of_inputs != nullptr && &of_inputs->device() != &stream->device()) {
      throw UsageError(fmt::format(
          "inputs are on two devices, '{}' and '{}'; bring them together with to_device",
          of_inputs->device().name, stream->device().name));
    }
    of_inputs = stream;
  }
  if (on.state()) {
    if (of_inputs != nullptr && &of_inputs->device() != &on.state()->device()) {
      throw UsageError(
          fmt::format("inputs are on device '{}', and the stream is of '{}'; use to_device",
                      of_inputs->device().name, on.state()->device().name));
    }
    return on.state();
  }
  if (const Stream* const current = current_stream()) {
    if (of_inputs == nullptr || &of_inputs->device() == &current->state()->device()) {
      return current->state();
    }
  }
  return of_inputs != nullptr ? of_inputs->home() : default_device().home();
}

std::vector<Array> apply(Ref<const Operation> operation, NodeInputs inputs,
                         std::span<const OutputType> outputs, Ref<StreamState> stream,
                         std::string label) {
  const Ref<Node> node = Node::make(std::move(operation), std::move(inputs), outputs,
                                    std::move(stream), std::move(label));
  std::vector<Array> results;
  results.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) results.emplace_back(node->first_user(i));
  return results;
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
  return Array(array::Node::make(operation, array::NodeInputs(inputs.begin(), inputs.end()),
                                 {&output, 1}, array::stream_for(inputs, on), {})
                   ->first_user(0));
}

}  // namespace holdfast
