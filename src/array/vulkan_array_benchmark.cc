// What arrays cost on a Vulkan device: kernels of one group each, so that the host decides. Times
// are the processor's, of the thread that calls. The reference records and submits the same
// dispatches of the same pipeline by the device contract alone, in memory made beforehand; what
// that costs above raw Vulkan is in src/runtime/vulkan_benchmark.cc.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "holdfast/base/sync/cpu_clock.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/kernel.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/runtime/context.h"

namespace holdfast::array {
namespace {

constexpr int kTinyCalls = 64;  // an evaluation
constexpr int64_t kTinyWidth = 256;

Ref<hal::VulkanDevice> open_vulkan_arrays(benchmark::State& state) {
  // Keeps the driver loaded. Destroyed, and so closed, before what the driver registered for the
  // exit when it was loaded.
  static const Result<Ref<hal::VulkanDevice>> kept = hal::VulkanDevice::open({.queues = 1});
  if (!kept) {
    state.SkipWithError(("skipped: " + kept.failure().message()).c_str());
    return nullptr;
  }
  if (const auto clang = kernel::Clang::find(); !clang) {
    state.SkipWithError(("skipped: " + clang.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(kept.value()->info().description);
  return hal::VulkanDevice::open({.queues = 1}).or_raise();
}

const Kernel& tiny_add() {
  static const Kernel made(
      {.name = "add",
       .inputs = {"a", "b"},
       .outputs = {"out"},
       .source = "uint i = thread_position_in_grid.x; out[i] = a[i] + b[i] + bias;"});
  return made;
}

Array call_tiny_add(const Array& a, const Array& b, float bias) {
  return tiny_add()({a, b}, {.grid = {kTinyWidth, 1, 1},
                             .threadgroup = {kTinyWidth, 1, 1},
                             .output_shapes = {{kTinyWidth}},
                             .output_dtypes = {float32},
                             .params = {{"bias", bias}}})[0];
}

double thread_seconds_since(sync::Duration start) {
  return std::chrono::duration<double>(sync::thread_cpu_time() - start).count();
}

// Building the calls and evaluating them, until that returns. In a chain each call reads what the
// one before made. Every result is allocated.
void tiny_calls(benchmark::State& state, bool chain) {
  const auto opened = open_vulkan_arrays(state);
  if (!opened) return;
  const Device device(opened);
  const Array a = full({kTinyWidth}, 1.0, float32, device);
  const Array b = full({kTinyWidth}, 1.0, float32, device);
  eval(a, b);
  float serial = 0;
  std::vector<Array> results;
  const auto give = [&] {
    results.clear();
    Array last = a;
    for (int k = 0; k < kTinyCalls; ++k) {
      Array out = call_tiny_add(chain ? last : a, b, ++serial);
      if (chain) {
        last = std::move(out);
      } else {
        results.push_back(std::move(out));
      }
    }
    if (chain) results.push_back(std::move(last));
    async_eval(results);
  };
  give();
  device.synchronize();
  for (auto _ : state) {
    const auto start = sync::thread_cpu_time();
    give();
    state.SetIterationTime(thread_seconds_since(start));
    device.synchronize();
  }
  state.counters["per"] = kTinyCalls;
}

// The same dispatches, by hand.
void tiny_dispatches(benchmark::State& state, bool chain) {
  const auto device = open_vulkan_arrays(state);
  if (!device) return;
  const auto context = runtime::Context::create(device);
  const auto stream = context->new_stream();
  kernel::KernelRuntime kernels(context, {.disk = nullptr});
  const Bytes size = Bytes{4} * static_cast<uint64_t>(kTinyWidth);
  std::vector<Ref<hal::Allocation>> memory;
  for (int i = 0; i < kTinyCalls + 2; ++i) {
    memory.push_back(stream->allocate(size));
    stream->fill(hal::Binding::of(memory.back(), hal::Access::write), std::byte{});
  }
  stream->synchronize();
  const std::array shape{kTinyWidth};
  const std::array inputs{kernel::ArrayRef(memory[0], kernel::Dtype::float32, shape),
                          kernel::ArrayRef(memory[1], kernel::Dtype::float32, shape)};
  const std::array outputs{kernel::ArrayRef(memory[2], kernel::Dtype::float32, shape)};
  const std::vector<kernel::Param> params{{"bias", 1.0F}};
  const Ref<const kernel::Variant> variant =
      kernels.prepare(tiny_add(), {.inputs = inputs,
                                   .outputs = outputs,
                                   .grid = {kTinyWidth, 1, 1},
                                   .threadgroup = {kTinyWidth, 1, 1},
                                   .params = params});
  std::vector<std::byte> parameters(variant->interface.parameter_bytes.value);
  const kernel::LaunchBlock block{
      {kTinyWidth, 1, 1}, {kTinyWidth, 1, 1}, {}, 1, {kTinyWidth, 1, 1}};
  std::memcpy(parameters.data(), &block, sizeof block);
  hal::Queue& queue = *device->queues()[0];
  hal::CommandList::Storage storage;
  for (auto _ : state) {
    const auto start = sync::thread_cpu_time();
    hal::CommandList list(device->info(), "batch", hal::LaneId::next(), std::exchange(storage, {}));
    for (size_t k = 0; k < kTinyCalls; ++k) {
      const Ref<hal::Allocation>& from = memory[chain && k > 0 ? k + 1 : 0];
      list.dispatch(variant->pipeline,
                    std::array{hal::Binding::of(from, hal::Access::read),
                               hal::Binding::of(memory[1], hal::Access::read),
                               hal::Binding::of(memory[k + 2], hal::Access::write)},
                    std::span<const std::byte>(parameters), {1, 1, 1});
      if (chain) list.barrier();
    }
    const hal::Point point = queue.submit(list).or_raise();
    state.SetIterationTime(thread_seconds_since(start));
    point.timeline->wait(point.value, sync::Deadline::never());
    hal::Retired retired = queue.retire();
    if (!retired.empty()) storage = retired.back()->list.take_storage();
  }
  state.counters["per"] = kTinyCalls;
}

const bool kVulkanArrayRows = [] {
  for (const bool chain : {false, true}) {
    const std::string name = chain ? "vulkan_array_chain" : "vulkan_array_independent";
    benchmark::RegisterBenchmark((name + "/ours").c_str(), [=](benchmark::State& s) {
      tiny_calls(s, chain);
    })->UseManualTime();
    benchmark::RegisterBenchmark((name + "/reference").c_str(), [=](benchmark::State& s) {
      tiny_dispatches(s, chain);
    })->UseManualTime();
  }
  return true;
}();

}  // namespace
}  // namespace holdfast::array
