#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace holdfast::bench {

// Array operations on the default device (HOLDFAST_DEVICE), each against a plain copy of as many
// bytes as it must move, in turn. Rows are named operation/NAME/DTYPE/SHAPE, which is all that
// tools/bundle/peers_operations.py needs to do the same with torch, CuPy and NumPy. Those whose
// operation/NAME/DTYPE does not match the filter are skipped. Sizes fit the device: hundreds of
// megabytes on a GPU.
void append_operation_rows(std::vector<Row>& rows, const std::string& filter, bool brief);

}  // namespace holdfast::bench
