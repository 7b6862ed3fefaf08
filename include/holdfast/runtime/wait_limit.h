#pragma once

#include <cstdint>
#include <functional>

#include "holdfast/base/sync/deadline.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// Why the host waited.
enum class WaitReason : unsigned {
  synchronize,      // the user asked for a whole stream
  point,            // the user asked for one Point
  readback,         // the user asked for bytes
  map,              // the user asked for a pointer
  budget,           // too much waits for the device
  out_of_memory,    // an allocation found no room
  submission_turn,  // another task was submitting to the same queue
  host_access,      // another task was reading back the range to be bound
  recording,        // another task was recording a node that is needed
  shutdown          // the Context was closed
};
inline constexpr unsigned kWaitReasons = 10;
const char* to_string(WaitReason reason);

struct WaitStats {
  uint64_t count = 0;
  sync::Duration total{};
  sync::Duration longest{};
};

// How long a caller is willing to wait.
struct WaitLimit {
  sync::Deadline deadline = sync::Deadline::never();
  // Called from time to time while waiting, on the waiting task; returning true ends the wait with
  // InterruptedError. May throw, which ends the wait too. A Python binding checks for signals here.
  std::function<bool()> interrupted;

  static WaitLimit after(sync::Duration duration) { return {sync::Deadline::after(duration), {}}; }
};

// Ends every wait in the process that is under way with InterruptedError. Async-signal-safe: call
// it from a SIGINT handler. Nothing is lost; the same wait can be made again.
void interrupt_waits() noexcept;

}  // namespace holdfast::runtime

#pragma GCC visibility pop
