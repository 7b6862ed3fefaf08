#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace holdfast::bench {

// Workload 4 in its regimes, ours and the two draining policies in turn. Skipped where the filter
// does not match "workload4".
void append_workload_rows(std::vector<Row>& rows, const std::string& filter, bool brief);

}  // namespace holdfast::bench
