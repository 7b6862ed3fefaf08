#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace holdfast::bench {

// Workload 3 (examples/turboquant.cc) at its real shapes on the CPU, and what retention costs it,
// with and without in turn; where the filter matches "workload3".
void append_decode_rows(std::vector<Row>& rows, const std::string& filter, bool brief);

}  // namespace holdfast::bench
