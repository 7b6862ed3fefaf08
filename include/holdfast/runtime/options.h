#pragma once

#include <cstdint>

#include "holdfast/base/bytes.h"
#include "holdfast/base/sync/deadline.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// Bounds of a Context. Zero means: the device's own limit, or no bound where it has none.
struct Options {
  // Device memory that the Context may have at once, pooled ranges included
  // (HOLDFAST_MEMORY_LIMIT).
  Bytes memory_limit{};
  // Whether memory_limit came from the variable; shapes the advice when memory runs out.
  bool memory_limit_from_environment = false;
  // Device buffers that the Context may have at once; imported memory is not counted.
  uint32_t object_limit = 0;

  // How much may wait for the device: dead ranges whose last list is not over. Beyond the limit,
  // the next transaction waits for the oldest submission (HOLDFAST_DEFERRED_LIMIT).
  Bytes deferred_limit = 256_MiB;
  uint32_t deferred_objects = 65536;
  // Lists in flight, over all streams. A few milliseconds of the shortest launches: bench row
  // workload4_keeps_up shows that the host then never waits for a device that keeps up.
  uint32_t max_in_flight = 4096;

  // How long closing lets work in flight finish before it reports what it had to leave.
  sync::Duration shutdown_bound = std::chrono::seconds(10);
  // A thread that retires finished work while nobody calls. Off only in tests that count
  // retirements.
  bool reaper = true;

  // Defaults, overridden by the environment. EnvironmentError names a variable that cannot be read.
  static Options from_environment();
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
