#pragma once

#include <functional>
#include <string>

#include "holdfast/runtime/stats.h"

namespace holdfast::workloads {

// A scratch heap that grows while earlier launches may still use its old memory; every launch has
// metadata and a result of its own, is submitted by itself, and hands its result to a next stage on
// another queue. Nothing ever synchronises; every hundredth launch reads its result back.
// (Quadrants PR 538.)
struct GrowingScratch {
  std::string device = "cpu";  // or "cuda"
  uint64_t launches = 10'000;  // each has two flushes: its own and the next stage's
  sync::Duration kernel_time{};
  uint64_t readback_every = 100;  // zero: never
  Bytes largest_scratch = 2_MiB;
  // Called now and then, with launches done.
  std::function<void(uint64_t, const runtime::RuntimeStats&)> progress;
};

struct GrowingScratchResult {
  uint64_t launches = 0;
  double seconds = 0;
  // Results that were read back, and how many of them were not what the kernel must have computed.
  uint64_t checked = 0;
  uint64_t wrong = 0;
  runtime::RuntimeStats stats;

  double launches_per_second() const { return static_cast<double>(launches) / seconds; }
  // Host time of one launch, waits excluded.
  double host_ns_per_launch() const;
  // Waits that the program did not ask for.
  uint64_t unasked_waits() const;
};

// Runs it in a Context of its own on a new device. Raises the reason where there is no such device.
GrowingScratchResult run(const GrowingScratch& options);

// The host's own cost of one launch, measured with a kernel that does nothing.
sync::Duration host_cost_of_a_launch(const std::string& device = "cpu");

}  // namespace holdfast::workloads
