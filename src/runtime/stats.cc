#include "holdfast/runtime/stats.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::runtime {

uint64_t RuntimeStats::wait_count() const {
  uint64_t all = 0;
  for (const WaitStats& w : waits) all += w.count;
  return all;
}

sync::Duration RuntimeStats::wait_time() const {
  sync::Duration all{};
  for (const WaitStats& w : waits) all += w.total;
  return all;
}

std::string to_string(const RuntimeStats& stats) {
  const MemoryStats& m = stats.memory;
  std::string text = fmt::format(
      "memory: {} live in {} ranges (peak {}), {} deferred in {} (peak {}), {} pooled, {} reserved "
      "in {} "
      "buffers\n"
      "lists: {} submitted, {} in flight, {} retired, {} failed; {} commands, {} barriers, {} "
      "holds\n",
      to_string(m.live), m.live_objects, to_string(m.live_peak), to_string(m.deferred),
      m.deferred_objects, to_string(m.deferred_peak), to_string(m.pooled), to_string(m.reserved),
      m.device_buffers, stats.submissions, stats.submissions_in_flight, stats.retired,
      stats.failures, stats.commands, stats.barriers, stats.holds);
  if (stats.wait_count() == 0) return text + "waits: none\n";
  text += "waits:";
  for (unsigned i = 0; i < kWaitReasons; ++i) {
    const WaitStats& w = stats.waits[i];
    if (w.count == 0) continue;
    text += fmt::format(
        " {} {}x {:.3f} ms (longest {:.3f});", to_string(static_cast<WaitReason>(i)), w.count,
        static_cast<double>(w.total.count()) / 1e6, static_cast<double>(w.longest.count()) / 1e6);
  }
  text.back() = '\n';
  return text;
}

std::string to_string(const Snapshot& snapshot, size_t lines) {
  std::string text;
  for (size_t i = 0; i < std::min(lines, snapshot.ranges.size()); ++i) {
    const Snapshot::Range& range = snapshot.ranges[i];
    text += fmt::format("  {}: ", range.what);
    if (range.deferred) {
      text += fmt::format("waits for {}\n", fmt::join(range.waits_for, ", "));
    } else {
      text += fmt::format("{} users\n", range.users);
    }
  }
  if (snapshot.ranges.size() > lines) {
    text += fmt::format("  and {} further ranges\n", snapshot.ranges.size() - lines);
  }
  for (size_t i = 0; i < std::min(lines, snapshot.lists.size()); ++i) {
    const Snapshot::List& list = snapshot.lists[i];
    text += fmt::format("  {}, {}: holds {} resources, {}\n", list.what, list.where, list.holds,
                        to_string(list.held));
  }
  if (snapshot.lists.size() > lines) {
    text += fmt::format("  and {} further lists\n", snapshot.lists.size() - lines);
  }
  return text;
}

}  // namespace holdfast::runtime
