#include "holdfast/stats.h"

#include <nanobind/stl/string.h>

#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

double seconds(sync::Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void bind_stats(nb::module_& m) {
  nb::class_<WaitStats>(m, "WaitStats", "How often and how long the host waited, in seconds.")
      .def_ro("count", &WaitStats::count)
      .def_prop_ro("total", [](const WaitStats& s) { return seconds(s.total); })
      .def_prop_ro("longest", [](const WaitStats& s) { return seconds(s.longest); })
      .def("__repr__", [](const WaitStats& s) {
        return "WaitStats(count=" + std::to_string(s.count) +
               ", total=" + std::to_string(seconds(s.total)) + ")";
      });
  nb::class_<KernelStats>(m, "KernelStats", "What the cache of compiled kernels did.")
      .def_ro("hits", &KernelStats::hits)
      .def_ro("misses", &KernelStats::misses)
      .def_ro("shared", &KernelStats::shared)
      .def_ro("disk_hits", &KernelStats::disk_hits)
      .def_ro("compiles", &KernelStats::compiles)
      .def_ro("failures", &KernelStats::failures)
      .def_ro("evictions", &KernelStats::evictions)
      .def_ro("variants", &KernelStats::variants)
      .def_prop_ro("bytes", [](const KernelStats& s) { return s.bytes; })
      .def_prop_ro("compile_time", [](const KernelStats& s) { return seconds(s.compile_time); });
  nb::class_<MemoryStats>(m, "MemoryStats", "Memory of a device, in bytes.")
      .def_prop_ro("live", [](const MemoryStats& s) { return s.live; })
      .def_prop_ro("live_peak", [](const MemoryStats& s) { return s.live_peak; })
      .def_prop_ro("deferred", [](const MemoryStats& s) { return s.deferred; })
      .def_prop_ro("deferred_peak", [](const MemoryStats& s) { return s.deferred_peak; })
      .def_prop_ro("pooled", [](const MemoryStats& s) { return s.pooled; })
      .def_prop_ro("reserved", [](const MemoryStats& s) { return s.reserved; })
      .def_prop_ro("reserved_peak", [](const MemoryStats& s) { return s.reserved_peak; })
      .def_ro("live_objects", &MemoryStats::live_objects)
      .def_ro("deferred_objects", &MemoryStats::deferred_objects)
      .def_ro("imports", &MemoryStats::imports)
      .def_ro("allocations", &MemoryStats::allocations)
      .def_ro("reused_in_order", &MemoryStats::reused_in_order);
  nb::class_<Stats>(m, "Stats", "Counters of a device, at one moment.")
      .def_prop_ro("memory", [](const Stats& s) { return s.runtime.memory; })
      .def_ro("kernels", &Stats::kernels)
      .def_prop_ro(
          "waits",
          [](const Stats& s) {
            nb::dict all;
            for (unsigned i = 0; i < runtime::kWaitReasons; ++i) {
              all[to_string(static_cast<WaitReason>(i))] = s.runtime.waits.at(i);
            }
            return all;
          },
          nb::sig("def waits(self) -> dict[str, WaitStats]"), "By reason.")
      .def_prop_ro("submissions", [](const Stats& s) { return s.runtime.submissions; })
      .def_prop_ro("submissions_in_flight",
                   [](const Stats& s) { return s.runtime.submissions_in_flight; })
      .def_prop_ro("commands", [](const Stats& s) { return s.runtime.commands; })
      .def_prop_ro("barriers", [](const Stats& s) { return s.runtime.barriers; })
      .def_prop_ro("failures", [](const Stats& s) { return s.runtime.failures; })
      .def_ro("nodes_recorded", &Stats::nodes_recorded)
      .def_ro("nodes_failed", &Stats::nodes_failed)
      .def_ro("donated", &Stats::donated)
      .def_ro("hidden_copies", &Stats::hidden_copies)
      .def_ro("functions_traced", &Stats::functions_traced)
      .def_ro("replays", &Stats::replays)
      .def_ro("calls_not_compiled", &Stats::calls_not_compiled)
      .def_ro("early_submits", &Stats::early_submits)
      .def("__repr__", [](const Stats& s) { return to_string(s); });
}

}  // namespace holdfast::python
