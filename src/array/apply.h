#pragma once

#include "holdfast/array/node.h"

namespace holdfast::array {

// Where a node with these inputs goes; see On. UsageError where inputs are of several devices, or
// where `on` names another than theirs.
Ref<StreamState> stream_for(std::span<const Array> inputs, const On& on);

// The results of a new node.
std::vector<Array> apply(Ref<const Operation> operation, NodeInputs&& inputs,
                         std::span<const OutputType> outputs, Ref<StreamState> stream,
                         std::string&& label);

// The one result of a new node, whose inputs may be moved in to donate their memory.
Array apply(Ref<const Operation> operation, NodeInputs&& inputs, const OutputType& output,
            const On& on);

}  // namespace holdfast::array
