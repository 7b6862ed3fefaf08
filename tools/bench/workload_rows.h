#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace holdfast::bench {

// Workload 4 in its regimes, ours and the two draining policies in turn: on the CPU where the
// filter matches "workload4", on CUDA where it matches "workload4_cuda" and there is a GPU.
void append_workload_rows(std::vector<Row>& rows, const std::string& filter, bool brief);

}  // namespace holdfast::bench
