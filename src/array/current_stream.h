#pragma once

#include "holdfast/base/sync/task_local.h"
#include "holdfast/stream.h"

namespace holdfast::array {

// Of the innermost UseStream of this task; null where there is none.
const Stream* current_stream() noexcept;

}  // namespace holdfast::array
