#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/runtime/wait_limit.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

struct MemoryStats {
  Bytes live;  // given out and in use
  Bytes live_peak;
  Bytes deferred;  // dead, its last list not over, not given out again
  Bytes deferred_peak;
  Bytes pooled;    // free in our blocks
  Bytes reserved;  // all that the device gave us, imports excluded
  Bytes reserved_peak;
  uint64_t live_objects = 0;
  uint64_t deferred_objects = 0;
  uint64_t device_buffers = 0;  // live Buffers, imports included
  uint64_t imports = 0;         // of those
  uint64_t allocations = 0;     // since the start
  uint64_t reused_in_order =
      0;  // given out before their Frontier was over, to work ordered after it
};

struct RuntimeStats {
  std::array<WaitStats, kWaitReasons> waits;
  MemoryStats memory;
  uint64_t submissions = 0;
  uint64_t submissions_in_flight = 0;
  uint64_t retired = 0;
  uint64_t commands = 0;
  uint64_t barriers = 0;
  uint64_t holds = 0;
  uint64_t failures = 0;  // lists that failed or were abandoned with a failure

  const WaitStats& waits_for(WaitReason reason) const {
    return waits[static_cast<unsigned>(reason)];
  }
  uint64_t wait_count() const;
  sync::Duration wait_time() const;
};
std::string to_string(const RuntimeStats& stats);

// Who holds what, at one moment.
struct Snapshot {
  struct Range {
    std::string what;  // "allocation 'weights' (id 17, 64.0 KiB)"
    Bytes bytes;
    uint32_t users = 0;
    bool deferred = false;
    std::vector<std::string> waits_for;  // lists, by name
  };
  struct List {
    std::string what;   // "list 'step 3' (id 12)"
    std::string where;  // "in flight on queue 0 @ 17", "open on stream 'decode'"
    size_t holds = 0;
    Bytes held;
  };
  std::vector<Range> ranges;  // largest first
  std::vector<List> lists;    // oldest first
};
// At most `lines` of each kind, then a count of the rest.
std::string to_string(const Snapshot& snapshot, size_t lines = 10);

}  // namespace holdfast::runtime

#pragma GCC visibility pop
