#include "holdfast/kernel/targets/cpu/fiber_group.h"

#include <benchmark/benchmark.h>

#include "holdfast/kernel/targets/cpu/kernel_host.h"

namespace holdfast::kernel {
namespace {

constexpr unsigned kRounds = 100;

struct Data {
  hf_host* host;
  void (*stop)(hf_host*, unsigned line);
};

void meet(void* data, unsigned) {
  const Data& d = *static_cast<const Data*>(data);
  for (unsigned i = 0; i < kRounds; ++i) d.stop(d.host, 1);
}

// Time for each thread at each barrier, from a kernel's point of view.
void meet_at(benchmark::State& state, bool simd) {
  FiberGroupPool pool;
  KernelHost host("k", pool);
  const auto threads = static_cast<unsigned>(state.range(0));
  Data data{&host, simd ? host.hf_host::simd_barrier : host.hf_host::barrier};
  for (auto _ : state) host.run_group(&host, threads, meet, &data);
  state.counters["per"] = static_cast<double>(threads) * kRounds;
}
BENCHMARK_CAPTURE(meet_at, barrier, false)
    ->Name("fiber_barrier/ours")
    ->Arg(32)
    ->Arg(256)
    ->Arg(1024);
BENCHMARK_CAPTURE(meet_at, simd_barrier, true)->Name("fiber_simd_barrier/ours")->Arg(32)->Arg(256);

// A group whose threads only start and return.
void start(benchmark::State& state) {
  FiberGroupPool pool;
  KernelHost host("k", pool);
  const auto threads = static_cast<unsigned>(state.range(0));
  for (auto _ : state) {
    host.run_group(
        &host, threads, [](void*, unsigned) {}, nullptr);
  }
  state.counters["per"] = threads;
}
BENCHMARK(start)->Name("fiber_start/ours")->Arg(256);

}  // namespace
}  // namespace holdfast::kernel
