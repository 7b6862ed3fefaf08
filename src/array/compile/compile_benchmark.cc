#include "holdfast/compile.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "holdfast/base/sync/clock.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/ops.h"
#include "holdfast/runtime/program_recorder.h"
#include "holdfast/runtime/stream.h"

namespace holdfast {
namespace {

// Graphs of one tiny kernel, from the call until the device is done, per node. The device is the
// CPU, and its lists run inside the call that submits them, so nothing is lost to waking threads.

enum class CompiledGraphKind : uint8_t { chain, wide };

Device device_that_runs_at_once() {
  DeviceOptions options;
  options.kernels.disk = nullptr;
  return Device(hal::CpuDevice::open({.queues = 1, .helpers = 0, .immediate = true}), options);
}

const Kernel& tiny_step() {
  static const Kernel kernel({.name = "tiny_step",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .source = "uint i = thread_position_in_grid.x; y[i] = x[i] + 1.0f;"});
  return kernel;
}

std::vector<Array> tiny_graph(CompiledGraphKind kind, const Array& x, int64_t nodes) {
  std::vector<Array> results;
  Array y = x;
  for (int64_t i = 0; i < nodes; ++i) {
    y = tiny_step()({kind == CompiledGraphKind::chain ? y : x}, {.grid = {1, 1, 1},
                                                                 .threadgroup = {1, 1, 1},
                                                                 .output_shapes = {{1}},
                                                                 .output_dtypes = {float32}})[0];
    if (kind == CompiledGraphKind::wide || i + 1 == nodes) results.push_back(y);
  }
  return results;
}

template <typename Run>
void measure_nodes(benchmark::State& state, const Device& device, int64_t nodes, const Run& run) {
  const int64_t rounds = std::max<int64_t>(1, 100'000 / nodes);
  run();
  device.synchronize();
  for (auto _ : state) {
    const auto start = sync::now();
    for (int64_t r = 0; r < rounds; ++r) run();
    device.synchronize();
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
  }
  state.counters["per"] = static_cast<double>(nodes * rounds);
}

void compiled(benchmark::State& state, CompiledGraphKind kind, int64_t nodes) {
  const Device device = device_that_runs_at_once();
  const Array x = full({1}, 1.0, float32, device);
  const auto f = compile([=](const Array& a) { return tiny_graph(kind, a, nodes); });
  measure_nodes(state, device, nodes, [&] { async_eval(f(x)); });
}

void uncompiled(benchmark::State& state, CompiledGraphKind kind, int64_t nodes) {
  const Device device = device_that_runs_at_once();
  const Array x = full({1}, 1.0, float32, device);
  measure_nodes(state, device, nodes, [&] { async_eval(tiny_graph(kind, x, nodes)); });
}

// The same dispatches recorded by hand, in memory made beforehand. Of the wide graph 250 results
// have a slot each, as a program has no more.
void raw_program(benchmark::State& state, CompiledGraphKind kind, int64_t nodes) {
  const Device device = device_that_runs_at_once();
  const Ref<runtime::Stream>& stream = device.default_stream().runtime_stream();
  constexpr std::array<int64_t, 1> shape{1};
  const Ref<hal::Allocation> x = stream->allocate(4_B);
  stream->fill(hal::Binding::of(x, hal::Access::write), std::byte{});
  const std::array in{kernel::ArrayRef(x, float32, shape)};
  const Ref<hal::Allocation> y = stream->allocate(4_B);
  const std::array out{kernel::ArrayRef(y, float32, shape)};
  const Ref<const kernel::Variant> variant = device.kernels().prepare(
      tiny_step(), {.inputs = in, .outputs = out, .grid = {}, .threadgroup = {}});
  std::vector<std::byte> parameters(variant->interface.parameter_bytes.value);
  const kernel::LaunchBlock block{{1, 1, 1}, {1, 1, 1}, {}, 64};
  std::memcpy(parameters.data(), &block, sizeof block);

  runtime::ProgramRecorder recorder(device.context(), "by hand");
  std::vector<Ref<hal::Allocation>> memory{x};
  for (int64_t i = 0; i < (kind == CompiledGraphKind::chain ? std::min<int64_t>(nodes, 2) : nodes);
       ++i) {
    memory.push_back(stream->allocate(4_B));
  }
  const auto slot = [](size_t i, hal::Access access) {
    return hal::Binding::of_slot(static_cast<uint32_t>(i), {0_B, 4_B}, access);
  };
  for (int64_t i = 0; i < nodes; ++i) {
    const bool chain = kind == CompiledGraphKind::chain;
    const auto from = static_cast<size_t>(chain && i > 0 ? 1 + (i + 1) % 2 : 0);
    const auto to = static_cast<size_t>(chain ? 1 + i % 2 : 1 + i);
    const std::array bindings{slot(from, hal::Access::read), slot(to, hal::Access::write)};
    recorder.dispatch(variant->pipeline, bindings, std::span<const std::byte>(parameters),
                      {1, 1, 1});
  }
  const Ref<hal::Program> program = recorder.seal();
  std::vector<hal::Binding> slots;
  for (const Ref<hal::Allocation>& m : memory) {
    slots.push_back(hal::Binding::of(m, m == x ? hal::Access::read : hal::Access::read_write));
  }
  measure_nodes(state, device, nodes, [&] { (void)stream->replay(program, slots); });
}

// What a transformer block does around its products: bias, GELU, residual, RMS norm. Processor time
// says what it costs where all cores are free.

Array block_tail(const Array& x, const Array& bias, const Array& residual, const Array& weight) {
  const Array h = x + bias;
  const Array y = 0.5F * h * (1.0F + erf(h * 0.70710678F)) + residual;
  return y * rsqrt(mean(y * y, {.axes = {-1}, .keep_dims = true}) + 1e-5F) * weight;
}

enum class TailKind : uint8_t { fused, unfused, eager };

struct TailArguments {
  explicit TailArguments(Dtype dtype) {
    constexpr int64_t kRows = 512;
    constexpr int64_t kWidth = 4096;
    for (const Shape& shape : {Shape{kRows, kWidth}, Shape{kWidth}, {kRows, kWidth}, {kWidth}}) {
      arrays.push_back(random_normal(shape, dtype));
    }
    eval(arrays);
  }
  std::vector<Array> arrays;
};

auto tail_of(TailKind kind) {
  using Function = std::function<Array(const Array&, const Array&, const Array&, const Array&)>;
  if (kind == TailKind::eager) return Function(block_tail);
  return Function(compile(block_tail, {.fuse = kind == TailKind::fused}));
}

void tail_time(benchmark::State& state, TailKind kind, Dtype dtype) {
  const Device device = default_device();
  const UseStream scope(device.default_stream());
  const std::vector<Array> a = TailArguments(dtype).arrays;
  const auto tail = tail_of(kind);
  measure_nodes(state, device, 1'000, [&] { async_eval(tail(a[0], a[1], a[2], a[3])); });
  state.counters["per"] = 100;  // rounds
  state.SetLabel(device.name());
}

// The most that lives at once, beyond the arguments.
void tail_memory(benchmark::State& state, TailKind kind, Dtype dtype) {
  Bytes most;
  for (auto _ : state) {
    const Device device = open_device("cpu");
    const UseStream scope(device.default_stream());
    const std::vector<Array> a = TailArguments(dtype).arrays;
    const Bytes before = device.stats().runtime.memory.live;
    const auto tail = tail_of(kind);
    const auto start = sync::now();
    eval(tail(a[0], a[1], a[2], a[3]));
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    most = device.stats().peak_memory() - before;
  }
  state.counters["bytes"] = static_cast<double>(most.value);
}

const bool compile_rows_registered = [] {
  const auto add = [](const std::string& name, auto&& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime();
  };
  using Kind = CompiledGraphKind;
  for (const auto& [kind, word, counts] :
       {std::tuple(Kind::chain, "chain", std::array<int64_t, 3>{1, 100, 1000}),
        std::tuple(Kind::wide, "wide", std::array<int64_t, 3>{1, 100, 250})}) {
    for (const int64_t nodes : counts) {
      const Kind k = kind;
      add(fmt::format("compiled_{}_{}/ours", word, nodes),
          [=](benchmark::State& s) { compiled(s, k, nodes); });
      add(fmt::format("compiled_{}_{}/reference", word, nodes),
          [=](benchmark::State& s) { raw_program(s, k, nodes); });
      add(fmt::format("compiled_{}_{}_and_eager/ours", word, nodes),
          [=](benchmark::State& s) { compiled(s, k, nodes); });
      add(fmt::format("compiled_{}_{}_and_eager/reference", word, nodes),
          [=](benchmark::State& s) { uncompiled(s, k, nodes); });
    }
  }
  for (const Dtype dtype : {float32, float16}) {
    const std::string_view name = kernel::to_string(dtype);
    const auto pair = [&](const std::string& row, const auto& measure, TailKind of,
                          TailKind beside) {
      add(fmt::format("{}/{}/ours", row, name),
          [=](benchmark::State& s) { measure(s, of, dtype); });
      add(fmt::format("{}/{}/reference", row, name),
          [=](benchmark::State& s) { measure(s, beside, dtype); });
    };
    pair("compiled_tail_and_unfused", tail_time, TailKind::fused, TailKind::unfused);
    pair("compiled_tail_and_eager", tail_time, TailKind::fused, TailKind::eager);
    pair("compiled_tail_memory_and_eager", tail_memory, TailKind::fused, TailKind::eager);
    pair("compiled_unfused_tail_memory_and_eager", tail_memory, TailKind::unfused, TailKind::eager);
  }
  return true;
}();

}  // namespace
}  // namespace holdfast
