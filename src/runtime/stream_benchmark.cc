#include "holdfast/runtime/stream.h"

#include <benchmark/benchmark.h>

#include <array>
#include <numeric>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;

struct Fixture {
  Ref<Context> context = Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 0}));
  Ref<Stream> stream = context->new_stream();

  Ref<hal::Pipeline> kernel(uint32_t bindings) {
    return context->create_pipeline(
        {"nothing", hal::HostFunction([](const hal::HostGroup&) {}), bindings, {}});
  }
};

// What a dispatch costs before anything is bound.
void empty_dispatch(benchmark::State& state) {
  constexpr int batch = 1000;
  Fixture f;
  const auto kernel = f.kernel(0);
  for (auto _ : state) {
    const auto start = sync::now();
    for (int i = 0; i < batch; ++i) f.stream->dispatch(kernel, {}, {}, {1, 1, 1});
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    f.stream->synchronize();
  }
  state.counters["per"] = batch;
}
BENCHMARK(empty_dispatch)->Name("empty_dispatch/ours")->UseManualTime();

// Everything that binding does on a stream (checks, hazards, histories, holds), with two bindings a
// dispatch; per binding, at a given number of prior dispatches in the list, each of which had
// Allocations of its own.
void hazard_prior(benchmark::State& state) {
  constexpr size_t measured = 100;
  const auto prior = static_cast<size_t>(state.range(0));
  Fixture f;
  const auto kernel = f.kernel(2);
  std::vector<Ref<hal::Allocation>> memory;
  for (size_t i = 0; i < 2 * (prior + measured); ++i) memory.push_back(f.context->allocate(256_B));
  const auto dispatch = [&](size_t i) {
    f.stream->dispatch(kernel,
                       std::array{Binding::of(memory[2 * i], Access::read),
                                  Binding::of(memory[2 * i + 1], Access::write)},
                       {}, {1, 1, 1});
  };
  for (auto _ : state) {
    for (size_t i = 0; i < prior; ++i) dispatch(i);
    const auto start = sync::now();
    for (size_t i = prior; i < prior + measured; ++i) dispatch(i);
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    f.stream->synchronize();
  }
  state.counters["per"] = static_cast<double>(2 * measured);
}
BENCHMARK(hazard_prior)
    ->Name("hazard_prior/ours")
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10000)
    ->Iterations(20)
    ->UseManualTime();

// One flush of a list with one dispatch, against the same list handed to the queue itself.
constexpr int kFlushes = 256;

void submit(benchmark::State& state) {
  Fixture f;
  const auto kernel = f.kernel(0);
  for (auto _ : state) {
    double total = 0;
    for (int i = 0; i < kFlushes; ++i) {
      f.stream->dispatch(kernel, {}, {}, {1, 1, 1});
      const auto start = sync::now();
      f.stream->flush();
      total += std::chrono::duration<double>(sync::now() - start).count();
    }
    state.SetIterationTime(total);
    f.stream->synchronize();
  }
  state.counters["per"] = kFlushes;
}
void submit_to_queue(benchmark::State& state) {
  const auto device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  const auto kernel =
      device->create_pipeline({"nothing", hal::HostFunction([](const hal::HostGroup&) {}), 0, {}})
          .or_raise();
  hal::Queue& queue = *device->queues()[0];
  for (auto _ : state) {
    double total = 0;
    hal::Point last;
    for (int i = 0; i < kFlushes; ++i) {
      hal::CommandList list(device->info(), "list");
      list.dispatch(kernel, {}, {}, {1, 1, 1});
      const auto start = sync::now();
      last = queue.submit(list).or_raise();
      queue.retire();
      total += std::chrono::duration<double>(sync::now() - start).count();
    }
    state.SetIterationTime(total);
    last.timeline->wait(last.value, sync::Deadline::never());
    queue.retire();
  }
  state.counters["per"] = kFlushes;
}
BENCHMARK(submit)->Name("submit/ours")->UseManualTime();
BENCHMARK(submit_to_queue)->Name("submit/reference")->UseManualTime();

// Dropping the holds of a finished list with sixteen of them, per list.
void retire(benchmark::State& state) {
  constexpr int lists = 64;
  Options options;
  options.reaper = false;
  const auto context = Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 0}), options);
  const auto stream = context->new_stream();
  const auto gate = context->new_host_timeline("gate");
  const auto kernel = context->create_pipeline(
      {"nothing", hal::HostFunction([](const hal::HostGroup&) {}), 16, {}});
  std::vector<Ref<hal::Allocation>> memory;
  std::vector<Binding> bindings;
  for (int i = 0; i < 16; ++i) {
    memory.push_back(context->allocate(256_B));
    bindings.push_back(Binding::of(memory.back(), Access::read));
  }
  uint64_t round = 0;
  for (auto _ : state) {
    // Held back until all are submitted, so that no submit retires any of them.
    stream->wait_for({gate, {++round}});
    hal::Point last;
    for (int i = 0; i < lists; ++i) {
      stream->dispatch(kernel, bindings, {}, {1, 1, 1});
      last = stream->flush();
    }
    gate->signal({round});
    last.timeline->wait(last.value, sync::Deadline::never());
    const auto start = sync::now();
    context->retire();
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
  }
  state.counters["per"] = lists;
}
BENCHMARK(retire)->Name("retire/ours")->UseManualTime();

// A small range from the pool and back, against asking the device for a buffer each time.
void pool_allocate_free(benchmark::State& state) {
  Fixture f;
  for (auto _ : state) benchmark::DoNotOptimize(f.stream->allocate(64_KiB));
}
void device_allocate_free(benchmark::State& state) {
  const auto device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  const hal::BufferDesc desc{64_KiB, hal::MemoryKind::device, ""};
  for (auto _ : state) benchmark::DoNotOptimize(device->create_buffer(desc));
}
BENCHMARK(pool_allocate_free)->Name("pool_allocate_free/ours");
BENCHMARK(device_allocate_free)->Name("pool_allocate_free/reference");

// A range that dies in the open list and serves the next request of its stream, again and again.
void pool_reuse_in_open_list(benchmark::State& state) {
  constexpr int batch = 256;
  Fixture f;
  const auto kernel = f.kernel(1);
  for (auto _ : state) {
    const auto start = sync::now();
    for (int i = 0; i < batch; ++i) {
      const auto scratch = f.stream->allocate(64_KiB);
      f.stream->dispatch(kernel, std::array{Binding::of(scratch, Access::write)}, {}, {1, 1, 1});
    }
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    f.stream->synchronize();
  }
  state.counters["per"] = batch;
}
BENCHMARK(pool_reuse_in_open_list)->Name("pool_reuse_in_open_list/ours")->UseManualTime();

}  // namespace
}  // namespace holdfast::runtime
