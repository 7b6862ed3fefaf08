// Matrix products by the device's library (cuBLASLt) against our own kernels: the rows that choose
// which products are worth a call of the library. Each product comes with an elementwise kernel,
// since a list with a call of the library is no graph.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <map>
#include <vector>

#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/creation.h"
#include "holdfast/device.h"
#include "holdfast/eval.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/ops.h"
#include "holdfast/stream.h"

namespace holdfast {
namespace {

struct MatmulSizes {
  int64_t rows;
  int64_t depth;
  int64_t columns;
};
constexpr MatmulSizes kMatmulSizes[] = {
    {64, 64, 64},       {128, 128, 128},    {256, 256, 256},   {512, 512, 512},
    {1024, 1024, 1024}, {4096, 4096, 4096}, {8, 4096, 4096},   {16, 4096, 4096},
    {32, 4096, 4096},   {64, 4096, 4096},   {256, 4096, 4096},
};
// Products in one evaluation.
constexpr int64_t kMatmulsAtOnce = 8;

// One for each side, for all rows; null where there is none. Says why to the benchmark.
const Device* device_by(MatmulBy by, benchmark::State& state) {
  static NeverDestroyed<std::map<MatmulBy, Device>> devices;
  std::map<MatmulBy, Device>& made = devices.get();
  if (const auto found = made.find(by); found != made.end()) return &found->second;
  auto opened = hal::CudaDevice::open();
  if (!opened) {
    state.SkipWithError(("skipped: " + opened.failure().message()).c_str());
    return nullptr;
  }
  if (by == MatmulBy::library && opened.value()->matrix_products() == nullptr) {
    state.SkipWithError("skipped: there is no cuBLASLt; HOLDFAST_LOG=device says why");
    return nullptr;
  }
  DeviceOptions options;
  options.matmul = by;
  return &made.emplace(by, Device(std::move(opened).value(), options)).first->second;
}

void multiply(benchmark::State& state, MatmulBy by, const MatmulSizes& s, Dtype dtype) {
  const Device* const found = device_by(by, state);
  if (found == nullptr) return;
  const Device& device = *found;
  state.SetLabel(device.description());
  const On on = device.default_stream();
  const Array x = random_uniform({s.rows, s.depth}, dtype, on);
  const Array w = random_uniform({s.depth, s.columns}, dtype, on);
  const Array bias = random_uniform({s.columns}, dtype, on);
  eval(x, w, bias);
  const auto once = [&] {
    std::vector<Array> all;
    for (int64_t i = 0; i < kMatmulsAtOnce; ++i) all.push_back(matmul(x, w, on) + bias);
    async_eval(all);
    device.synchronize();
  };
  for (int i = 0; i < 3; ++i) once();  // compiles, loads, and shows the lists' shapes
  for (auto _ : state) {
    const sync::TimePoint begin = sync::now();
    once();
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - begin).count());
  }
  state.counters["per"] = static_cast<double>(kMatmulsAtOnce);
}

const bool kMatmulRegistered = [] {
  for (const auto& [dtype, word] :
       {std::pair(float32, "fp32"), std::pair(float16, "fp16"), std::pair(bfloat16, "bf16")}) {
    for (const MatmulSizes& sizes : kMatmulSizes) {
      const std::string name =
          fmt::format("cuda_matmul_{}_{}x{}x{}", word, sizes.rows, sizes.depth, sizes.columns);
      for (const auto& [by, side] :
           {std::pair(MatmulBy::library, "ours"), std::pair(MatmulBy::own, "reference")}) {
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}", name, side).c_str(),
            [b = by, s = sizes, d = dtype](benchmark::State& state) { multiply(state, b, s, d); })
            ->UseManualTime();
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace holdfast
