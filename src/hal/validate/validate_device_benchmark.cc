#include "holdfast/hal/validate/validate_device.h"

#include <benchmark/benchmark.h>

#include <array>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {
namespace {

constexpr int kValidatedDispatches = 64;
constexpr size_t kMemories = 32;

// Records, submits and retires a list of dispatches with three bindings each; per dispatch. The
// kernel does nothing. The difference of the two sides is what validation costs.
void dispatches(benchmark::State& state, bool validated) {
  // One thread of the device and no helpers: what runs beside the caller is the same on both sides.
  Ref<Device> device = CpuDevice::open({.queues = 1, .helpers = 0});
  if (validated) device = ValidateDevice::wrap(std::move(device));
  const auto kernel =
      device->create_pipeline({"nothing", HostFunction([](const HostGroup&) {}), 3, {}}).or_raise();
  std::array<Ref<Allocation>, kMemories> memories;
  for (auto& memory : memories) {
    memory =
        Allocation::whole(device->create_buffer({4_KiB, MemoryKind::upload, "memory"}).or_raise());
  }
  Queue& queue = *device->queues()[0];
  for (auto _ : state) {
    CommandList list(device->info(), "list");
    for (size_t i = 0; i < kValidatedDispatches; ++i) {
      const std::array bindings{Binding::of(memories[i % kMemories], Access::read),
                                Binding::of(memories[(i + 7) % kMemories], Access::read),
                                Binding::of(memories[(i + 13) % kMemories], Access::write)};
      list.dispatch(kernel, bindings, {}, {1, 1, 1});
      list.barrier();
    }
    const Point point = queue.submit(list).or_raise();
    point.timeline->wait(point.value, sync::Deadline::never());
    queue.retire();
  }
  state.counters["per"] = kValidatedDispatches;
}
void ours(benchmark::State& state) { dispatches(state, true); }
void reference(benchmark::State& state) { dispatches(state, false); }

BENCHMARK(ours)->Name("validate_dispatch/ours")->UseRealTime();
BENCHMARK(reference)->Name("validate_dispatch/reference")->UseRealTime();

}  // namespace
}  // namespace holdfast::hal
