#include "holdfast/kernel/launch.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

#include "holdfast/base/sync/clock.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/testing/temporary_folder.h"

namespace holdfast::kernel {
namespace {

// One thread runs everything, so that a kernel is compared with a loop.
struct LaunchFixture {
  explicit LaunchFixture(Options options = {.disk = nullptr})
      : kernels(context, std::move(options)) {}
  Ref<runtime::Context> context =
      runtime::Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 0}));
  Ref<runtime::Stream> stream = context->new_stream();
  KernelRuntime kernels;
};

Kernel axpy() {
  return Kernel({.name = "axpy",
                 .inputs = {"x", "y"},
                 .outputs = {"z"},
                 .source = "uint i = thread_position_in_grid.x;\nz[i] = T(a * x[i] + y[i]);"});
}

struct AxpyCall {
  explicit AxpyCall(runtime::Stream& stream, int64_t n) : shape{n} {
    for (auto* memory : {&x, &y, &z}) {
      *memory = stream.allocate(Bytes{4} * static_cast<uint64_t>(n));
      stream.fill(hal::Binding::of(*memory, hal::Access::write), std::byte{});
    }
    inputs = {ArrayRef{x, Dtype::float32, shape}, ArrayRef{y, Dtype::float32, shape}};
    outputs = {ArrayRef{z, Dtype::float32, shape}};
  }
  Launch launch() const {
    return {.inputs = inputs,
            .outputs = outputs,
            .grid = {static_cast<uint32_t>(shape[0]), 1, 1},
            .threadgroup = {256, 1, 1},
            .constants = constants,
            .params = params};
  }
  std::array<int64_t, 1> shape;
  Ref<hal::Allocation> x, y, z;
  std::vector<ArrayRef> inputs, outputs;
  std::vector<Constant> constants{{"T", Dtype::float32}};
  std::vector<Param> params{{"a", 2.0F}};
};

// What finding a compiled variant adds to a call: its signature is made and looked up.
void hit_path(benchmark::State& state) {
  LaunchFixture f;
  const Kernel kernel = axpy();
  const AxpyCall call(*f.stream, 1024);
  benchmark::DoNotOptimize(f.kernels.prepare(kernel, call.launch()));
  for (auto _ : state) benchmark::DoNotOptimize(f.kernels.prepare(kernel, call.launch()));
  f.stream->synchronize();
}
BENCHMARK(hit_path)->Name("kernel_hit_path/ours");

// The whole call, recorded; the reference records the same dispatch of the same pipeline.
void recorded_call(benchmark::State& state, bool through_kernel) {
  constexpr int batch = 1000;
  LaunchFixture f;
  const Kernel kernel = axpy();
  const AxpyCall call(*f.stream, 1);
  const Ref<const Variant> variant = f.kernels.prepare(kernel, call.launch());
  const std::array bindings{hal::Binding::of(call.x, hal::Access::read),
                            hal::Binding::of(call.y, hal::Access::read),
                            hal::Binding::of(call.z, hal::Access::write)};
  std::vector<std::byte> parameters(variant->interface.parameter_bytes.value);
  const LaunchBlock block{{1, 1, 1}, {256, 1, 1}, {}, 64};
  std::memcpy(parameters.data(), &block, sizeof block);
  for (auto _ : state) {
    const auto start = sync::now();
    for (int i = 0; i < batch; ++i) {
      if (through_kernel) {
        f.kernels.launch(*f.stream, kernel, call.launch());
      } else {
        f.stream->dispatch(variant->pipeline, bindings, std::span<const std::byte>(parameters),
                           {1, 1, 1});
      }
    }
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    f.stream->synchronize();
  }
  state.counters["per"] = batch;
}
BENCHMARK_CAPTURE(recorded_call, ours, true)->Name("kernel_call_recorded/ours")->UseManualTime();
BENCHMARK_CAPTURE(recorded_call, reference, false)
    ->Name("kernel_call_recorded/reference")
    ->UseManualTime();

// A first call in a process that has everything on disk, against one that must compile.
void first_call(benchmark::State& state, bool on_disk) {
  const testing::TemporaryFolder folder;
  const auto context = runtime::Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 0}));
  const auto stream = context->new_stream();
  const AxpyCall call(*stream, 1024);
  const Kernel kernel = axpy();
  const auto target = make_target(context->device()->info());
  {
    // The compiler's version is asked for once in a process.
    KernelRuntime warm(context,
                       {.target = target, .disk = std::make_shared<DiskCache>(folder.path())});
    benchmark::DoNotOptimize(warm.prepare(kernel, call.launch()));
  }
  for (auto _ : state) {
    KernelRuntime kernels(
        context,
        {.target = target, .disk = on_disk ? std::make_shared<DiskCache>(folder.path()) : nullptr});
    benchmark::DoNotOptimize(kernels.prepare(kernel, call.launch()));
  }
  stream->synchronize();
}
BENCHMARK_CAPTURE(first_call, ours, true)->Name("kernel_disk_hit/ours")->UseRealTime();
BENCHMARK_CAPTURE(first_call, reference, false)->Name("kernel_disk_hit/reference")->UseRealTime();
BENCHMARK_CAPTURE(first_call, cold, false)->Name("kernel_cold_compile/ours")->UseRealTime();

// Real variants of one kernel, compiled ahead, per variant; the reference compiles them one by one.
void many_variants(benchmark::State& state, bool ahead, size_t variants) {
  for (auto _ : state) {
    LaunchFixture f;
    const Kernel kernel({.name = "shift",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = "uint i = thread_position_in_grid.x; y[i] = x[i] + N;"});
    std::vector<CallSignature> signatures;
    for (size_t n = 0; n < variants; ++n) {
      signatures.push_back({.inputs = {{Dtype::float32, 1}},
                            .outputs = {{Dtype::float32, 1}},
                            .constants = {{"N", static_cast<int64_t>(n)}}});
    }
    if (ahead) {
      benchmark::DoNotOptimize(f.kernels.warm_up(kernel, signatures));
    } else {
      for (const CallSignature& signature : signatures) {
        benchmark::DoNotOptimize(f.kernels.warm_up(kernel, {&signature, 1}));
      }
    }
    if (f.kernels.stats().compiles != variants) state.SkipWithError("not all compiled");
  }
  state.counters["per"] = static_cast<double>(variants);
}
BENCHMARK_CAPTURE(many_variants, ours, true, 500)
    ->Name("kernel_500_variants/ours")
    ->UseRealTime()
    ->Iterations(1)
    ->Repetitions(1);
BENCHMARK_CAPTURE(many_variants, reference, false, 50)
    ->Name("kernel_500_variants/reference")
    ->UseRealTime()
    ->Iterations(1)
    ->Repetitions(1);

// The same loops by hand, for whatever the processor has, as the JIT compiles for it.
#if defined(__x86_64__)
#define HOLDFAST_FOR_THIS_PROCESSOR \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOLDFAST_FOR_THIS_PROCESSOR
#endif

HOLDFAST_FOR_THIS_PROCESSOR void axpy_by_hand(float a, const float* __restrict__ x,
                                              const float* __restrict__ y, float* __restrict__ z,
                                              uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) z[i] = a * x[i] + y[i];
}

HOLDFAST_FOR_THIS_PROCESSOR void polynomial_by_hand(float a, const float* __restrict__ x,
                                                    const float* __restrict__ y,
                                                    float* __restrict__ z, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const float v = x[i];
    const float p = (((y[i] * v + a) * v + a) * v + a) * v + a;
    z[i] = p > 0.0F ? p : 0.1F * p;
  }
}

const char* const kPolynomial = R"(
uint i = thread_position_in_grid.x;
const float v = x[i];
const float p = (((y[i] * v + a) * v + a) * v + a) * v + a;
z[i] = T(p > 0.0f ? p : 0.1f * p);
)";

using ByHand = void (*)(float, const float*, const float*, float*, uint32_t);

// A kernel without barriers on one thread, against the loop.
void cpu_kernel(benchmark::State& state, const char* body, ByHand by_hand) {
  constexpr int64_t n = 1 << 16;
  constexpr int batch = 200;  // so that waking and waiting at its ends does not count
  LaunchFixture f;
  const Kernel kernel =
      body != nullptr
          ? Kernel({.name = "polynomial", .inputs = {"x", "y"}, .outputs = {"z"}, .source = body})
          : axpy();
  const AxpyCall call(*f.stream, n);
  std::vector<float> x(n, 0.5F);
  std::vector<float> y(n, 0.25F);
  std::vector<float> z(n);
  f.stream->upload(call.x, {}, std::as_bytes(std::span(x)));
  f.stream->upload(call.y, {}, std::as_bytes(std::span(y)));
  f.kernels.launch(*f.stream, kernel, call.launch());
  f.stream->synchronize();
  for (auto _ : state) {
    if (by_hand != nullptr) {
      for (int i = 0; i < batch; ++i) {
        by_hand(2.0F, x.data(), y.data(), z.data(), n);
        benchmark::ClobberMemory();
      }
    } else {
      for (int i = 0; i < batch; ++i) f.kernels.launch(*f.stream, kernel, call.launch());
      f.stream->synchronize();
    }
  }
  state.counters["per"] = batch;
}
BENCHMARK_CAPTURE(cpu_kernel, axpy, nullptr, nullptr)
    ->Name("cpu_kernel_axpy_64k/ours")
    ->UseRealTime();
BENCHMARK_CAPTURE(cpu_kernel, axpy_by_hand, nullptr, axpy_by_hand)
    ->Name("cpu_kernel_axpy_64k/reference")
    ->UseRealTime();
BENCHMARK_CAPTURE(cpu_kernel, polynomial, kPolynomial, nullptr)
    ->Name("cpu_kernel_polynomial_64k/ours")
    ->UseRealTime();
BENCHMARK_CAPTURE(cpu_kernel, polynomial_by_hand, kPolynomial, polynomial_by_hand)
    ->Name("cpu_kernel_polynomial_64k/reference")
    ->UseRealTime();

}  // namespace
}  // namespace holdfast::kernel
