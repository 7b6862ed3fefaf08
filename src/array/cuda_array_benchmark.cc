// What arrays cost on a GPU: kernels of one group each, so that the host decides. What CUDA itself
// takes for the same kernels is in src/runtime/cuda_benchmark.cc.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/cuda/cuda_queue.h"
#include "holdfast/kernel.h"
#include "holdfast/stream.h"

namespace holdfast::array {
namespace {

constexpr int kBatch = 64;  // calls an evaluation
constexpr int64_t kWidth = 256;

struct CudaArrays {
  explicit CudaArrays(Ref<hal::CudaDevice> opened) : cuda(opened), device(std::move(opened)) {}

  // How lists reached the driver so far.
  hal::CudaQueue::Counts counts() const {
    hal::CudaQueue::Counts all;
    for (const Ref<hal::Queue>& queue : cuda->queues().first(cuda->info().queues)) {
      const auto one = static_cast<const hal::CudaQueue&>(*queue).counts();
      all.lists += one.lists;
      all.graphs.launched += one.graphs.launched;
      all.graphs.made += one.graphs.made;
    }
    return all;
  }

  Ref<hal::CudaDevice> cuda;
  Device device;
};

std::unique_ptr<CudaArrays> open_cuda_arrays(benchmark::State& state, uint32_t queues = 1) {
  // Keeps the driver's context, which takes long to make. Destroyed, and so closed, before what the
  // driver registered for the exit when it was loaded.
  static const Result<Ref<hal::CudaDevice>> kept = hal::CudaDevice::open({.queues = 1});
  if (!kept) {
    state.SkipWithError(("skipped: " + kept.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(kept.value()->info().description);
  return std::make_unique<CudaArrays>(hal::CudaDevice::open({.queues = queues}).or_raise());
}

Array ones(const Device& device) { return full({kWidth}, 1.0, float32, device); }

Array add(const Array& a, const Array& b, float bias) {
  static const Kernel kernel(
      {.name = "add",
       .inputs = {"a", "b"},
       .outputs = {"out"},
       .source = "uint i = thread_position_in_grid.x; out[i] = a[i] + b[i] + bias;"});
  return kernel({a, b}, {.grid = {kWidth, 1, 1},
                         .threadgroup = {kWidth, 1, 1},
                         .output_shapes = {{kWidth}},
                         .output_dtypes = {float32},
                         .params = {{"bias", bias}}})[0];
}

// independent: 64 calls and one evaluation. chain: the same, each call on what the one before made.
// each: every call is evaluated by itself.
enum class Calls { independent, chain, each };
const char* to_string(Calls calls) {
  switch (calls) {
    case Calls::independent: return "independent";
    case Calls::chain: return "chain";
    case Calls::each: return "each";
  }
  return "";
}

double seconds_from(sync::TimePoint start) {
  return std::chrono::duration<double>(sync::now() - start).count();
}

// Building the calls and evaluating them; until that returns, or until the device is done.
void batches(benchmark::State& state, Calls calls, bool drained) {
  const auto f = open_cuda_arrays(state);
  if (!f) return;
  const Array a = ones(f->device);
  const Array b = ones(f->device);
  eval(a, b);
  float serial = 0;
  std::vector<Array> results;
  const auto give = [&] {
    results.clear();
    Array last = a;
    for (int k = 0; k < kBatch; ++k) {
      const Array& from = calls == Calls::chain ? last : a;
      Array out = add(from, b, ++serial);
      if (calls == Calls::each) async_eval(out);
      if (calls == Calls::independent) {
        results.push_back(std::move(out));
      } else {
        last = std::move(out);
      }
    }
    if (calls == Calls::chain) results.push_back(std::move(last));
    if (calls != Calls::each) async_eval(results);
  };
  for (int i = 0; i < 4; ++i) {  // shapes are learned
    give();
    f->device.synchronize();
  }
  for (auto _ : state) {
    const auto start = sync::now();
    give();
    if (drained) f->device.synchronize();
    state.SetIterationTime(seconds_from(start));
    if (!drained) f->device.synchronize();
  }
  state.counters["per"] = kBatch;
}

// The arrays of `independent` live until all is done, so nothing goes wrong without holds.
void batches_without_holds(benchmark::State& state) {
#ifdef HOLDFAST_ABLATIONS
  const ScopedAblation memory(Ablation::bound_not_held);
  const ScopedAblation kernels(Ablation::pipelines_not_held);
  batches(state, Calls::independent, false);
#else
  state.SkipWithError("skipped: this build has no ablations");
#endif
}

// Each on a stream of its own; until all that they called is done.
void evaluating_threads(benchmark::State& state, int count) {
  const auto f = open_cuda_arrays(state, static_cast<uint32_t>(count));
  if (!f) return;
  constexpr int kBatches = 32;
  std::vector<Stream> streams;
  std::vector<Array> inputs;
  for (int t = 0; t < count; ++t) {
    streams.push_back(f->device.new_stream());
    const UseStream scope(streams.back());
    inputs.push_back(ones(f->device));
    eval(add(inputs.back(), inputs.back(), 0));
  }
  for (auto _ : state) {
    const auto start = sync::now();
    {
      std::vector<sync::Thread> threads;
      for (int t = 0; t < count; ++t) {
        threads.emplace_back("evaluator", [&, t] {
          const auto at = static_cast<size_t>(t);
          const UseStream scope(streams[at]);
          const Array& x = inputs[at];
          for (int n = 0; n < kBatches; ++n) {
            std::vector<Array> results;
            for (int k = 0; k < kBatch; ++k) results.push_back(add(x, x, static_cast<float>(k)));
            async_eval(results);
          }
          streams[at].synchronize();
        });
      }
    }
    state.SetIterationTime(seconds_from(start));
  }
  state.counters["per"] = static_cast<double>(count) * kBatches * kBatch;
}

// From the call to numbers on the host.
void array_readback(benchmark::State& state) {
  const auto f = open_cuda_arrays(state);
  if (!f) return;
  const Array a = ones(f->device);
  eval(add(a, a, 0));
  float serial = 0;
  for (auto _ : state) benchmark::DoNotOptimize(add(a, a, ++serial).to_vector<float>());
}

// --- Decoding -----------------------------------------------------------------------------------

// The shape of a decode loop: for each token, layers of small kernels, one of which writes the new
// entry into a cache that grows in use, and a number read back at the end.
class Decoder {
 public:
  static constexpr int kLayers = 24;
  static constexpr int kKernelsOfALayer = 4;
  static constexpr int64_t kTokens = 64;

  explicit Decoder(const Device& device) : token_(ones(device)), weights_(ones(device)) {
    for (int l = 0; l < kLayers; ++l) {
      caches_.push_back(full({kTokens, kWidth}, 0.0, float32, device));
    }
    eval(caches_);
  }

  // One token; returns what decides the next.
  float step() {
    const auto position = static_cast<uint32_t>(tokens_++ % kTokens);
    Array x = token_;
    for (Array& cache : caches_) {
      x = add(x, weights_, 0.5F);
      cache = keep(x, std::move(cache), position);
      x = attend(x, cache, position + 1);
      x = add(x, weights_, -0.5F);
    }
    token_ = std::move(x);
    return token_.to_vector<float>()[0];
  }

 private:
  static Array keep(const Array& x, Array&& cache, uint32_t position) {
    static const Kernel kernel(
        {.name = "keep",
         .inputs = {"x"},
         .outputs = {},
         .in_place = {"cache"},
         .source = "uint i = thread_position_in_grid.x; cache[position * 256 + i] = x[i];"});
    std::vector<Array> in_place;
    in_place.push_back(std::move(cache));
    return kernel({x}, {.grid = {kWidth, 1, 1},
                        .threadgroup = {kWidth, 1, 1},
                        .params = {{"position", position}},
                        .in_place = std::move(in_place)})[0];
  }
  static Array attend(const Array& x, const Array& cache, uint32_t length) {
    static const Kernel kernel(
        {.name = "attend", .inputs = {"x", "cache"}, .outputs = {"y"}, .source = R"(
uint i = thread_position_in_grid.x;
float sum = 0.0f;
for (uint t = 0; t < length; ++t) sum += cache[t * 256 + i];
y[i] = 0.5f * x[i] + 0.5f * sum / float(length);
)"});
    return kernel({x, cache}, {.grid = {kWidth, 1, 1},
                               .threadgroup = {kWidth, 1, 1},
                               .output_shapes = {{kWidth}},
                               .output_dtypes = {float32},
                               .params = {{"length", length}}})[0];
  }

  Array token_;
  Array weights_;
  std::vector<Array> caches_;
  int64_t tokens_ = 0;
};

// Per kernel of the loop, readbacks included; or the share of its lists that found an executable.
void decode(benchmark::State& state, bool hits) {
  const auto f = open_cuda_arrays(state);
  if (!f) return;
  Decoder decoder(f->device);
  for (int i = 0; i < 4; ++i) decoder.step();
  const auto before = f->counts();
  for (auto _ : state) {
    const auto start = sync::now();
    for (int i = 0; i < 16; ++i) benchmark::DoNotOptimize(decoder.step());
    state.SetIterationTime(seconds_from(start));
  }
  if (hits) {
    state.counters["percent"] = 100 * (f->counts() - before).hit_rate();
  } else {
    state.counters["per"] = 16 * Decoder::kLayers * Decoder::kKernelsOfALayer;
  }
}

const bool registered = [] {
  const auto row = [](const std::string& name, auto&& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime();
  };
  for (const Calls calls : {Calls::independent, Calls::chain, Calls::each}) {
    for (const bool drained : {false, true}) {
      row(fmt::format("cuda_array_{}{}/ours", to_string(calls), drained ? "_drained" : ""),
          [=](benchmark::State& s) { batches(s, calls, drained); });
    }
  }
  row("cuda_array_holds_independent/ours",
      [](benchmark::State& s) { batches(s, Calls::independent, false); });
  row("cuda_array_holds_independent/reference", batches_without_holds);
  for (const int count : {1, 2, 4, 8, 16}) {
    row(fmt::format("cuda_array_threads_{}/ours", count),
        [=](benchmark::State& s) { evaluating_threads(s, count); });
  }
  row("cuda_array_decode/ours", [](benchmark::State& s) { decode(s, false); });
  row("cuda_array_decode_graph_hits/ours", [](benchmark::State& s) { decode(s, true); });
  benchmark::RegisterBenchmark("cuda_array_readback/ours", array_readback)->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace holdfast::array
