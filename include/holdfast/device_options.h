#pragma once

#include "holdfast/kernel/launch.h"
#include "holdfast/runtime/options.h"

namespace holdfast {

// When an evaluation submits what it has recorded, so that the device works while the host still
// records, and so that no submission runs for long: whichever limit is met first. The
// number of commands was chosen by the bench row array_early_submit; no row varies the others yet.
struct SubmitLimits {
  uint32_t commands = 64;
  Bytes bytes = 64_MiB;                                // that the recorded commands write
  sync::Duration time = std::chrono::milliseconds(2);  // since the first of them was recorded
};

struct DeviceOptions {
  runtime::Options runtime = runtime::Options::from_environment();
  kernel::KernelRuntime::Options kernels{};
  SubmitLimits submit{};
};

}  // namespace holdfast
