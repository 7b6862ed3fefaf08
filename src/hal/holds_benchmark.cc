#include "holdfast/hal/holds.h"

#include <benchmark/benchmark.h>

#include <array>

#include "holdfast/base/ablation.h"
#include "holdfast/hal/command_list.h"
#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {
namespace {

constexpr size_t kBindings = 16;
constexpr size_t kDispatches = 256;

struct Fixture {
  Ref<CpuDevice> device = CpuDevice::open({.queues = 1, .helpers = 0});
  Ref<Buffer> block = device->create_buffer({1_MiB, MemoryKind::device, "block"}).or_raise();
  Ref<Pipeline> kernel =
      device->create_pipeline({"nothing", HostFunction([](const HostGroup&) {}), kBindings, {}})
          .or_raise();
  std::vector<Ref<Allocation>> memory;
  std::vector<std::array<Binding, kBindings>> bindings;

  // As many groups of distinct Allocations as dispatches.
  explicit Fixture(size_t groups) {
    for (size_t g = 0; g < groups; ++g) {
      auto& group = bindings.emplace_back();
      for (Binding& binding : group) {
        memory.push_back(make_ref<Allocation>(block, ByteRange{{}, 256_B}, "", nullptr));
        binding = Binding::of(memory.back(), Access::read);
      }
    }
  }

  // Records a list of dispatches and gives its memory on, as a stream does.
  void record(benchmark::State& state) {
    ListStorage storage;
    for (auto _ : state) {
      CommandList list(device->info(), "list", LaneId::next(), std::move(storage));
      const auto start = sync::now();
      for (size_t i = 0; i < kDispatches; ++i) {
        list.dispatch(kernel, bindings[i % bindings.size()], {}, {1, 1, 1});
      }
      state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
      storage = list.take_storage();
    }
    state.counters["per"] = static_cast<double>(kDispatches * kBindings);
  }
};

void bind(benchmark::State& state, size_t groups, bool held) {
  Fixture fixture(groups);
  if (held) {
    fixture.record(state);
  } else {
    const ScopedAblation off(Ablation::bound_not_held);
    fixture.record(state);
  }
}

// The same Allocations in every dispatch of a list.
void bind_repeated_held(benchmark::State& state) { bind(state, 1, true); }
void bind_repeated_unheld(benchmark::State& state) { bind(state, 1, false); }
// Allocations that the list has not seen before.
void bind_first_held(benchmark::State& state) { bind(state, kDispatches, true); }
void bind_first_unheld(benchmark::State& state) { bind(state, kDispatches, false); }

BENCHMARK(bind_repeated_held)->Name("bind_repeated/ours")->UseManualTime();
BENCHMARK(bind_repeated_unheld)->Name("bind_repeated/reference")->UseManualTime();
BENCHMARK(bind_first_held)->Name("bind_first/ours")->UseManualTime();
BENCHMARK(bind_first_unheld)->Name("bind_first/reference")->UseManualTime();

}  // namespace
}  // namespace holdfast::hal
