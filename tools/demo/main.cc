// Workload 4 under three policies, side by side: what waits for the device, and what that costs.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <vector>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/devices.h"
#include "workloads/growing_scratch.h"

namespace {

using holdfast::Ablation;
using holdfast::ScopedAblation;
using holdfast::runtime::RuntimeStats;
using holdfast::workloads::GrowingScratch;
using holdfast::workloads::GrowingScratchResult;

struct Policy {
  const char* name;
  std::optional<Ablation> ablation;
};
constexpr Policy kPolicies[] = {
    {"Holdfast: wait for the oldest, only over budget", std::nullopt},
    {"FIFO of 3, full drain on overflow", Ablation::fifo_of_three_drains},
    {"full drain every 32 flushes", Ablation::drain_every_32_flushes},
};

GrowingScratchResult run_policy(const Policy& policy, GrowingScratch workload, bool live) {
  const uint64_t launches = workload.launches;
  if (live) {
    workload.progress = [&](uint64_t done, const RuntimeStats& stats) {
      fmt::print("\r  {:<50} {:>3}%  {:>10} wait for the device \x1b[K", policy.name,
                 done * 100 / launches, to_string(stats.memory.deferred));
      std::fflush(stdout);
    };
  }
  std::optional<ScopedAblation> ablation;
  if (policy.ablation) ablation.emplace(*policy.ablation);
  GrowingScratchResult result = run(workload);
  if (live) fmt::print("\r\x1b[K");
  return result;
}

void print_row(const Policy& policy, const GrowingScratchResult& r) {
  fmt::print("  {:<50} {:>9.0f}/s {:>9} {:>12} {:>10.1f} ms {:>7}\n", policy.name,
             r.launches_per_second(), r.unasked_waits(), to_string(r.stats.memory.deferred_peak),
             static_cast<double>(r.stats.wait_time().count()) / 1e6,
             r.wrong == 0 ? "all" : fmt::format("-{}", r.wrong));
}

int demo(const std::string& device, uint64_t launches) {
  const bool live = isatty(STDOUT_FILENO) != 0;
  fmt::print(
      "A scratch heap that grows while submitted work may still use its old memory.\n"
      "Every launch has metadata and a result of its own, is flushed by itself and feeds a next "
      "stage on\n"
      "another queue; nothing synchronises. Device: {}. {} launches, two flushes each.\n\n",
      device, launches);
  const auto host = holdfast::workloads::host_cost_of_a_launch(device);
  fmt::print("The host's own cost of a launch is {:.2f} us.\n",
             static_cast<double>(host.count()) / 1e3);
  bool all_right = true;
  for (const double factor : {0.2, 5.0}) {
    GrowingScratch workload;
    workload.device = device;
    workload.launches = factor < 1 ? launches : launches / 5;
    workload.kernel_time =
        std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(host.count()) * factor));
    fmt::print("\nA kernel {} ({:.2f} us, {}x the host's cost), {} launches:\n",
               factor < 1 ? "that keeps up" : "that cannot keep up",
               static_cast<double>(workload.kernel_time.count()) / 1e3, factor, workload.launches);
    fmt::print("  {:<50} {:>11} {:>9} {:>12} {:>13} {:>7}\n", "policy", "launches", "unasked",
               "most bytes", "host waited", "results");
    fmt::print("  {:<50} {:>11} {:>9} {:>12} {:>13} {:>7}\n", "", "", "waits", "deferred", "in all",
               "right");
    for (const Policy& policy : kPolicies) {
      const GrowingScratchResult result = run_policy(policy, workload, live);
      print_row(policy, result);
      all_right = all_right && result.wrong == 0;
    }
  }
  fmt::print(
      "\nUnasked waits are those the program did not ask for: it asks for one result in a hundred "
      "launches.\n");
  return all_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Holdfast's demo: memory that waits for the device, under three policies");
  uint64_t launches = 100'000;
  app.add_option("--launches", launches,
                 "launches of the kernel that keeps up; the other kernel gets a fifth")
      ->check(CLI::Range(1000ULL, 100'000'000ULL))
      ->capture_default_str();
  std::string device = "cpu";
  app.add_option("--device", device, "where it runs")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  bool devices = false;
  app.add_flag("--devices", devices,
               "only list the devices on this machine, and why some cannot be used");
  CLI11_PARSE(app, argc, argv);
  try {
    if (devices) {
      for (const auto& found : holdfast::hal::list_devices()) {
        fmt::print("{:<10} {}\n", found.name, found.description);
      }
      return 0;
    }
    return demo(device, launches);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
