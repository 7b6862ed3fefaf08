// Workloads 1 and 2 on CUDA beside the same written by hand in CUDA C++: the same arithmetic and as
// many threads, launched one by one or as a graph that is made once, on memory that is there. Both
// sides run several evaluations, one after another, until the last is done.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/kernel/targets/cuda/nvrtc.h"
#include "workloads/fused_layer_norm.h"
#include "workloads/paroquant.h"

namespace holdfast::bench {
namespace {

namespace cu = hal::cu;
using kernel::Dtype;
using workloads::FusedLayerNormRun;
using workloads::make_tensor;
using workloads::ParoQuantLayer;
using workloads::relative_error;
using workloads::Tensor;
using workloads::upload;

constexpr int kEvaluations = 8;
constexpr uint32_t kWidth = 768;
constexpr uint32_t kChannels = 2560;
constexpr int kParoLayers = 8;  // of one evaluation

const char* const kByHand = R"(
#include <cuda_fp16.h>

__device__ float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  return v;
}

__device__ float block_sum(float v, float* partial) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < 8; ++i) total += partial[i];
  __syncthreads();
  return total;
}

// 768 inputs and outputs; a warp for each output.
extern "C" __global__ void __launch_bounds__(256)
fused_layer_norm(const __half* __restrict__ x, const __half* __restrict__ w,
                 const __half* __restrict__ gamma, const __half* __restrict__ beta,
                 const __half* __restrict__ bias, __half* __restrict__ y) {
  __shared__ float partial[8];
  constexpr int n = 768;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += 256) sum += __half2float(x[i]);
  float mean = block_sum(sum, partial) / n;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < n; i += 256) {
    float d = __half2float(x[i]) - mean;
    squares += d * d;
  }
  float inverse = rsqrtf(block_sum(squares, partial) / n + 1e-5f);
  int lane = threadIdx.x % 32;
  int o = blockIdx.x * 8 + threadIdx.x / 32;
  float acc = 0.0f;
  for (int j = lane; j < n; j += 32) {
    float normal = (__half2float(x[j]) - mean) * inverse;
    float h = normal * __half2float(gamma[j]) + __half2float(beta[j]);
    acc += __half2float(w[o * n + j]) * h;
  }
  acc = warp_sum(acc);
  if (lane == 0) y[o] = __float2half(acc + __half2float(bias[o]));
}

constexpr int D = 2560;

template <int R>
__device__ void rotate_rows(const float* __restrict__ x, const int* __restrict__ pairs,
                            const float* __restrict__ cosine, const float* __restrict__ sine,
                            const float* __restrict__ scale, float* __restrict__ y, int rows) {
  __shared__ float tile[128 * R];
  int t = threadIdx.x;
  int group = blockIdx.y;
  int first_row = blockIdx.x * R;
  for (int c = t; c < 128; c += 64) {
    int channel = group * 128 + c;
    float s = scale[channel];
    for (int r = 0; r < R; ++r) {
      int row = first_row + r;
      tile[c * R + r] = row < rows ? x[row * D + channel] * s : 0.0f;
    }
  }
  __syncthreads();
  for (int k = 0; k < 8; ++k) {
    int at = k * (D / 2) + group * 64 + t;
    unsigned pair = unsigned(pairs[at]);
    int i = pair & 0xffff;
    int j = pair >> 16;
    float c = cosine[at];
    float s = sine[at];
    for (int r = 0; r < R; ++r) {
      float a = tile[i * R + r];
      float b = tile[j * R + r];
      tile[i * R + r] = a * c + b * s;
      tile[j * R + r] = b * c - a * s;
    }
    __syncthreads();
  }
  for (int c = t; c < 128; c += 64) {
    for (int r = 0; r < R; ++r) {
      int row = first_row + r;
      if (row < rows) y[row * D + group * 128 + c] = tile[c * R + r];
    }
  }
}
#define ROTATE(R)                                                                       \
  extern "C" __global__ void __launch_bounds__(64)                                      \
  rotate_##R(const float* x, const int* pairs, const float* cosine, const float* sine,  \
             const float* scale, float* y, long long rows) {                            \
    rotate_rows<R>(x, pairs, cosine, sine, scale, y, int(rows));                        \
  }
ROTATE(1)
ROTATE(4)

// A warp for each output of a row.
extern "C" __global__ void __launch_bounds__(128)
product(const float* __restrict__ x, const unsigned* __restrict__ packed,
        const float* __restrict__ scales, const float* __restrict__ biases, float* __restrict__ y) {
  int lane = threadIdx.x % 32;
  int o = blockIdx.x * 4 + threadIdx.x / 32;
  int row = blockIdx.y;
  float acc = 0.0f;
  for (int word = lane; word < D / 8; word += 32) {
    unsigned q = packed[o * (D / 8) + word];
    float s = scales[o * (D / 128) + word / 16];
    float b = biases[o * (D / 128) + word / 16];
    for (int e = 0; e < 8; ++e) {
      acc += x[row * D + word * 8 + e] * (s * float((q >> (4 * e)) & 15u) + b);
    }
  }
  acc = warp_sum(acc);
  if (lane == 0) y[row * D + o] = acc;
}
)";

uint64_t address_of(const Tensor& tensor) {
  const hal::Allocation& memory = *tensor.memory;
  return static_cast<const hal::CudaBuffer&>(*memory.buffer()).address() +
         (memory.offset() + tensor.offset).value;
}

// A context with one stream on the GPU.
struct OnCuda {
  explicit OnCuda(Ref<hal::CudaDevice> opened)
      : device(opened),
        context(runtime::Context::create(std::move(opened))),
        stream(context->new_stream()),
        kernels(context) {}

  Ref<hal::CudaDevice> device;
  Ref<runtime::Context> context;
  Ref<runtime::Stream> stream;
  kernel::KernelRuntime kernels;
};

std::unique_ptr<OnCuda> open_for_workloads(benchmark::State& state) {
  // Keeps the driver's context, which takes long to make. Destroyed, and so closed, before what the
  // driver registered for the exit when it was loaded.
  static const Result<Ref<hal::CudaDevice>> kept = hal::CudaDevice::open({.queues = 1});
  if (!kept) {
    state.SkipWithError(("skipped: " + kept.failure().message()).c_str());
    return nullptr;
  }
  if (const auto nvrtc = kernel::NvrtcLibrary::of_process(); !nvrtc) {
    state.SkipWithError(("skipped: " + nvrtc.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(kept.value()->info().description);
  return std::make_unique<OnCuda>(hal::CudaDevice::open({.queues = 1}).or_raise());
}

// The compiled kernels and a stream, by the driver alone: launches that are noted once, and then
// made one by one or as a graph.
class ByHand {
 public:
  explicit ByHand(const hal::CudaDevice& device)
      : api_(hal::CudaApi::load().or_raise()), cu_(api_->calls()) {
    context_ = static_cast<cu::CUcontext>(device.context());
    check(cu_.cuCtxPushCurrent(context_));
    const kernel::Code code = compiled(device.info().architecture);
    check(cu_.cuModuleLoadDataEx(&module_, code.data(), 0, nullptr, nullptr));
    check(cu_.cuStreamCreate(&stream_, cu::CU_STREAM_NON_BLOCKING));
    void* host = nullptr;
    check(cu_.cuMemHostAlloc(&host, 4096,
                             cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP));
    counter_ = static_cast<std::atomic<uint64_t>*>(host);
    counter_->store(0);
    check(cu_.cuMemHostGetDevicePointer(&counter_address_, host, 0));
  }
  ~ByHand() {
    cu_.cuStreamSynchronize(stream_);
    if (exec_ != nullptr) cu_.cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) cu_.cuGraphDestroy(graph_);
    cu_.cuMemFreeHost(counter_);
    cu_.cuStreamDestroy(stream_);
    cu_.cuModuleUnload(module_);
    cu_.cuCtxPopCurrent(&context_);
  }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  // Pointers, and at the end a number, if the kernel takes one.
  void note(const char* kernel, hal::Groups grid, unsigned threads,
            std::vector<uint64_t> arguments) {
    Launch launch{nullptr, grid, threads, std::move(arguments)};
    check(cu_.cuModuleGetFunction(&launch.function, module_, kernel));
    launches_.push_back(std::move(launch));
  }
  void make_graph() {
    check(cu_.cuGraphCreate(&graph_, 0));
    cu::CUgraphNode last = nullptr;
    for (Launch& launch : launches_) {
      Extra extra(launch);
      cu::CudaKernelNodeParams params;
      params.func = launch.function;
      params.gridDimX = launch.grid.x;
      params.gridDimY = launch.grid.y;
      params.blockDimX = launch.threads;
      params.extra = extra.words;
      cu::CUgraphNode node = nullptr;
      check(cu_.cuGraphAddKernelNode(&node, graph_, &last, last == nullptr ? 0 : 1, &params));
      last = node;
    }
    check(cu_.cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }

  // All that was noted, once.
  void run() {
    if (exec_ != nullptr) {
      cu_.cuGraphLaunch(exec_, stream_);
      return;
    }
    for (Launch& launch : launches_) {
      Extra extra(launch);
      cu_.cuLaunchKernel(launch.function, launch.grid.x, launch.grid.y, 1, launch.threads, 1, 1, 0,
                         stream_, nullptr, extra.words);
    }
  }
  void wait() {
    check(cu_.cuStreamWriteValue64(stream_, counter_address_, ++value_, 0));
    for (unsigned attempt = 0; counter_->load(std::memory_order_acquire) < value_; ++attempt) {
      sync::relax(attempt);
    }
  }

 private:
  struct Launch {
    cu::CUfunction function;
    hal::Groups grid;
    unsigned threads;
    std::vector<uint64_t> arguments;
  };
  // A launch's arguments as the driver takes one block of them.
  struct Extra {
    explicit Extra(Launch& launch)
        : size(launch.arguments.size() * sizeof(uint64_t)),
          words{pointer(cu::CU_LAUNCH_PARAM_BUFFER_POINTER), launch.arguments.data(),
                pointer(cu::CU_LAUNCH_PARAM_BUFFER_SIZE), &size, pointer(cu::CU_LAUNCH_PARAM_END)} {
    }
    static void* pointer(uintptr_t value) {
      return reinterpret_cast<void*>(value);  // NOLINT(performance-no-int-to-ptr)
    }
    size_t size;
    void* words[5];
  };

  static kernel::Code compiled(const std::string& architecture) {
    kernel::CompileJob job{.kernel = "by_hand"};
    job.native = std::make_shared<kernel::Native>(kernel::Native{
        .kind = kernel::NativeKind::cuda, .text = kByHand, .entry_point = "product"});
    return kernel::compile_cuda(job, {.architecture = architecture}).or_raise();
  }
  void check(cu::CUresult result) const {
    if (result != cu::CUDA_SUCCESS) throw Error(ErrorCode::execution, api_->describe(result));
  }

  std::shared_ptr<const hal::CudaApi> api_;
  const cu::Calls& cu_;
  cu::CUcontext context_ = nullptr;
  cu::CUmodule module_ = nullptr;
  cu::CUstream stream_ = nullptr;
  cu::CUgraph graph_ = nullptr;
  cu::CUgraphExec exec_ = nullptr;
  std::atomic<uint64_t>* counter_ = nullptr;
  cu::CUdeviceptr counter_address_ = 0;
  uint64_t value_ = 0;
  std::vector<Launch> launches_;
};

enum class Side { ours, graph, launches };

template <typename Evaluate, typename Wait>
void measure_evaluations(benchmark::State& state, const Evaluate& evaluate, const Wait& wait) {
  for (int i = 0; i < 4; ++i) evaluate();
  wait();
  for (auto _ : state) {
    const auto start = sync::now();
    for (int i = 0; i < kEvaluations; ++i) evaluate();
    wait();
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
  }
  state.counters["per"] = kEvaluations;
}

// What a side computed must be right, or its time means nothing.
void check_result(benchmark::State& state, double error, double tolerance) {
  if (error <= tolerance) return;
  state.SkipWithError(
      fmt::format("the results are wrong: off by {} of the largest, where {} is allowed", error,
                  tolerance)
          .c_str());
}

void fused_layer_norm(benchmark::State& state, Side side) {
  const auto f = open_for_workloads(state);
  if (!f) return;
  FusedLayerNormRun run(*f->stream, {.width = kWidth});
  if (side == Side::ours) {
    measure_evaluations(
        state,
        [&] {
          run.record(*f->stream, f->kernels);
          f->stream->flush();
        },
        [&] { f->stream->synchronize(); });
    check_result(state, relative_error(run.result(*f->stream), run.reference()), run.tolerance());
    return;
  }
  std::vector<Tensor> outputs;
  while (outputs.size() < run.layers().size()) {
    outputs.push_back(make_tensor(*f->stream, Dtype::float16, {kWidth}, "by hand"));
  }
  f->stream->synchronize();
  ByHand hand(*f->device);
  uint64_t x = address_of(run.input());
  for (size_t l = 0; l < outputs.size(); ++l) {
    const auto& layer = run.layers()[l];
    const uint64_t y = address_of(outputs[l]);
    hand.note("fused_layer_norm", {kWidth / 8, 1, 1}, 256,
              {x, address_of(layer.w), address_of(layer.gamma), address_of(layer.beta),
               address_of(layer.bias), y});
    x = y;
  }
  if (side == Side::graph) hand.make_graph();
  measure_evaluations(
      state, [&] { hand.run(); }, [&] { hand.wait(); });
  check_result(state, relative_error(read(*f->stream, outputs.back()), run.reference()),
               run.tolerance());
}

// Layers with the same weights, the product of each the input of the next. The first is checked.
void paroquant(benchmark::State& state, Side side, uint32_t rows) {
  const auto f = open_for_workloads(state);
  if (!f) return;
  const ParoQuantLayer layer(*f->stream,
                             {.rows = rows, .channels = kChannels, .outputs = kChannels});
  const std::vector<int64_t> shape{static_cast<int64_t>(rows), kChannels};
  const Tensor input =
      upload(*f->stream, Dtype::float32, shape, layer.input(Dtype::float32), "input");
  // It takes longer than all that is measured.
  static std::map<uint32_t, std::vector<double>> references;
  std::vector<double>& reference = references[rows];
  if (reference.empty()) reference = layer.product_reference(Dtype::float32);
  const auto check_first = [&](const Tensor& product) {
    check_result(state, relative_error(read(*f->stream, product), reference),
                 ParoQuantLayer::tolerance(Dtype::float32));
  };
  if (side == Side::ours) {
    Tensor first;
    measure_evaluations(
        state,
        [&] {
          Tensor x = input;
          for (int l = 0; l < kParoLayers; ++l) {
            x = layer.record(*f->stream, f->kernels, x).product;
            if (l == 0) first = x;
          }
          f->stream->flush();
        },
        [&] { f->stream->synchronize(); });
    check_first(first);
    return;
  }
  std::vector<Tensor> outputs;  // rotated and multiplied, in turn
  for (int i = 0; i < 2 * kParoLayers; ++i) {
    outputs.push_back(make_tensor(*f->stream, Dtype::float32, shape, "by hand"));
  }
  f->stream->synchronize();
  const ParoQuantLayer::Weights& w = layer.weights();
  ByHand hand(*f->device);
  uint64_t x = address_of(input);
  for (size_t l = 0; l < outputs.size(); l += 2) {
    const uint64_t rotated = address_of(outputs[l]);
    const uint64_t product = address_of(outputs[l + 1]);
    const uint32_t tile_rows = rows <= 1 ? 1 : 4;
    hand.note(rows <= 1 ? "rotate_1" : "rotate_4",
              {(rows + tile_rows - 1) / tile_rows, kChannels / 128, 1}, 64,
              {x, address_of(w.pairs), address_of(w.cosine), address_of(w.sine),
               address_of(w.scale), rotated, rows});
    hand.note("product", {kChannels / 4, rows, 1}, 128,
              {rotated, address_of(w.packed), address_of(w.scales), address_of(w.biases), product});
    x = product;
  }
  if (side == Side::graph) hand.make_graph();
  measure_evaluations(
      state, [&] { hand.run(); }, [&] { hand.wait(); });
  check_first(outputs[1]);
}

const bool registered = [] {
  const auto rows = [](const std::string& name, auto run) {
    const auto row = [&](const std::string& full, Side side) {
      benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& s) {
        run(s, side);
      })->UseManualTime();
    };
    row(name + "/ours", Side::ours);
    row(name + "/reference", Side::graph);
    row(name + "_against_launches/ours", Side::ours);
    row(name + "_against_launches/reference", Side::launches);
  };
  rows("workload1_cuda", fused_layer_norm);
  for (const uint32_t count : {1, 7}) {
    rows(fmt::format("workload2_cuda_rows_{}", count),
         [=](benchmark::State& s, Side side) { paroquant(s, side, count); });
  }
  return true;
}();

}  // namespace
}  // namespace holdfast::bench
