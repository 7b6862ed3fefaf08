#include "workload_rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <regex>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "workloads/growing_scratch.h"

namespace holdfast::bench {
namespace {

using runtime::WaitReason;
using workloads::GrowingScratch;
using workloads::GrowingScratchResult;

struct Regime {
  const char* name;
  double kernel_over_host;
  uint64_t readback_every;
};
// The kernel's time as a multiple of the host's own cost of a launch.
constexpr Regime kRegimes[] = {
    {"keeps_up", 0.2, 100},
    {"too_slow", 5.0, 100},
    {"too_slow_never_read", 5.0, 0},
};

GrowingScratchResult measure(const GrowingScratch& workload, std::optional<Ablation> policy) {
  std::optional<ScopedAblation> ablation;
  if (policy) ablation.emplace(*policy);
  return run(workload);
}

// `what` its budget waits wait for.
std::string describe_waits(const GrowingScratchResult& r, const char* what) {
  const auto& stats = r.stats;
  const uint64_t budget = stats.waits_for(WaitReason::budget).count;
  return fmt::format("{} unasked waits ({} for {}), {} readback waits, {} wrong of {} results",
                     r.unasked_waits(), budget, what, stats.waits_for(WaitReason::readback).count,
                     r.wrong, r.checked);
}

struct Place {
  const char* device;
  const char* rows;   // how their names begin
  uint64_t launches;  // two flushes each
};
// A launch on a GPU takes several times as long.
constexpr Place kPlaces[] = {{"cpu", "workload4", 500'000}, {"cuda", "workload4_cuda", 100'000}};

void append_rows(std::vector<Row>& all, const Place& place, bool brief) {
  const bool live = isatty(STDERR_FILENO) != 0;
  std::vector<Row> rows;
  const auto host = workloads::host_cost_of_a_launch(place.device);
  rows.push_back({fmt::format("{}_host_cost_of_a_launch", place.rows), "ns",
                  static_cast<double>(host.count()), 0, 0,
                  "two flushes, three allocations, an upload"});
  for (const Regime& regime : kRegimes) {
    GrowingScratch workload;
    workload.device = place.device;
    workload.launches = brief ? 5'000 : place.launches;
    workload.readback_every = regime.readback_every;
    workload.kernel_time = sync::Duration(
        static_cast<int64_t>(static_cast<double>(host.count()) * regime.kernel_over_host));
    if (live) fmt::print(stderr, "\r  workload 4, {}: ours, ", regime.name);
    const GrowingScratchResult ours = measure(workload, std::nullopt);
    if (live) fmt::print(stderr, "FIFO of three, ");
    const GrowingScratchResult fifo = measure(workload, Ablation::fifo_of_three_drains);
    if (live) fmt::print(stderr, "every 32 ");
    const GrowingScratchResult every = measure(workload, Ablation::drain_every_32_flushes);
    if (live) fmt::print(stderr, "\r{:<90}\r", "");

    const auto name = [&](const char* what) {
      return fmt::format("{}_{}/{}", place.rows, regime.name, what);
    };
    const auto mib = [](const GrowingScratchResult& r) {
      return static_cast<double>(r.stats.memory.deferred_peak.value) / (1 << 20);
    };
    rows.push_back({name("throughput_vs_fifo_of_3"), "per second", ours.launches_per_second(),
                    fifo.launches_per_second(), 0, "ours: " + describe_waits(ours, "the oldest")});
    rows.push_back({name("throughput_vs_every_32"), "per second", ours.launches_per_second(),
                    every.launches_per_second(), 0, ""});
    rows.push_back({name("deferred_peak_vs_fifo_of_3"), "MiB", mib(ours), mib(fifo), 0,
                    "FIFO of 3: " + describe_waits(fifo, "all")});
    rows.push_back({name("deferred_peak_vs_every_32"), "MiB", mib(ours), mib(every), 0,
                    "every 32: " + describe_waits(every, "all")});
  }
  for (Row& row : rows) {
    row.device = place.device;
    all.push_back(std::move(row));
  }
}

}  // namespace

void append_workload_rows(std::vector<Row>& rows, const std::string& filter, bool brief) {
  for (const Place& place : kPlaces) {
    if (!std::regex_search(place.rows, std::regex(filter))) continue;
    try {
      append_rows(rows, place, brief);
    } catch (const EnvironmentError& missing) {
      fmt::print(stderr, "{}: skipped: {}\n", place.rows, missing.what());
    }
  }
}

}  // namespace holdfast::bench
