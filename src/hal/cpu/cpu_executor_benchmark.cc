#include "holdfast/hal/cpu/cpu_executor.h"

#include <benchmark/benchmark.h>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {
namespace {

// One dispatch of eight equal groups, submitted and waited for: with helpers, against without. The
// argument is the dispatch's work in microseconds; the executor calls help above its own estimate
// of what that is worth.
void wave(benchmark::State& state, bool help) {
  const auto device =
      CpuDevice::open({.queues = 1, .helpers = help ? std::optional<unsigned>() : 0U});
  const auto per_group = sync::Duration(state.range(0) * 1000 / 8);
  const auto kernel = device
                          ->create_pipeline({"busy",
                                             HostFunction([per_group](const HostGroup&) {
                                               const auto end = sync::now() + per_group;
                                               while (sync::now() < end) {
                                               }
                                             }),
                                             0,
                                             {}})
                          .or_raise();
  Queue& queue = *device->queues()[0];
  for (auto _ : state) {
    CommandList list(device->info(), "list");
    list.dispatch(kernel, {}, {}, {8, 1, 1});
    const Point point = queue.submit(list).or_raise();
    point.timeline->wait(point.value, sync::Deadline::never());
    queue.retire();
  }
}
void helped(benchmark::State& state) { wave(state, true); }
void alone(benchmark::State& state) { wave(state, false); }

BENCHMARK(helped)->Name("cpu_wave_help/ours")->Arg(5)->Arg(50)->Arg(500)->UseRealTime();
BENCHMARK(alone)->Name("cpu_wave_help/reference")->Arg(5)->Arg(50)->Arg(500)->UseRealTime();

}  // namespace
}  // namespace holdfast::hal
