#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "holdfast/base/bytes.h"
#include "holdfast/base/sync/deadline.h"

namespace holdfast::kernel {
class DiskCache;
class Target;
}  // namespace holdfast::kernel

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Limits on compiled kernels in memory.
struct CacheLimits {
  size_t variants = 4096;
  Bytes bytes = 256_MiB;
};

struct CacheStats {
  uint64_t hits = 0;    // found by signature
  uint64_t misses = 0;  // had to look further: one of the four below
  uint64_t shared = 0;  // found by content: another kernel object or spelling had made it
  uint64_t disk_hits = 0;
  uint64_t compiles = 0;          // that succeeded
  uint64_t failures = 0;          // that failed, also where waiters shared them
  uint64_t waits = 0;             // calls that waited for another call's compile
  uint64_t evictions = 0;         // dropped because of the limits
  sync::Duration compile_time{};  // of all compiles, failed ones too
  size_t variants = 0;            // now
  Bytes bytes{};                  // now
};

// The disk cache that the environment asks for; null: none.
std::shared_ptr<DiskCache> usual_disk_cache();

// How a device's kernels are compiled and kept.
struct Options {
  CacheLimits limits{};
  std::shared_ptr<Target> target{};  // null: the one for the device
  std::shared_ptr<DiskCache> disk = usual_disk_cache();
  bool bounds = false;  // HOLDFAST_BOUNDS=1 has the same effect
};

}  // namespace holdfast::kernel

#pragma GCC visibility pop
