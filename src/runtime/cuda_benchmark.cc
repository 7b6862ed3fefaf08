// What the backend costs above CUDA itself: each reference is a loop that a careful programmer
// would write by hand for this one purpose, on a stream of its own, on the same GPU in the same
// run.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/hal/program.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::hal {
namespace {

// Dispatches a list, as in shared measurements of ways to submit.
constexpr size_t kCudaBatch = 64;
constexpr size_t kCudaWave = 8;    // dispatches that do not depend on each other, in mixed lists
constexpr Bytes kCudaArray{1024};  // 256 floats
constexpr size_t kCudaArrays = 128;
constexpr size_t kCudaSubmits = 16;

// Whether a kernel waits for the grids before it: such a one may be launched while they end.
enum class Kernel { plain, waiting };

// out[i] = a[i] + b[i] + bias, with a group of 256 threads.
constexpr std::string_view kPlainBegin = ".version 7.0\n.target sm_70\n";
constexpr std::string_view kWaitingBegin = ".version 8.0\n.target sm_90\n";
constexpr std::string_view kAddDeclared = R"(.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .f32 bias)
{
	.reg .f32 %f<6>;
	.reg .b32 %r<2>;
	.reg .b64 %rd<11>;
)";
constexpr std::string_view kAddBody = R"(	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u64 %rd3, [out];
	ld.param.f32 %f1, [bias];
	cvta.to.global.u64 %rd4, %rd3;
	cvta.to.global.u64 %rd5, %rd2;
	cvta.to.global.u64 %rd6, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd7, %r1, 4;
	add.s64 %rd8, %rd6, %rd7;
	ld.global.f32 %f2, [%rd8];
	add.s64 %rd9, %rd5, %rd7;
	ld.global.f32 %f3, [%rd9];
	add.f32 %f4, %f2, %f3;
	add.f32 %f5, %f4, %f1;
	add.s64 %rd10, %rd4, %rd7;
	st.global.f32 [%rd10], %f5;
	ret;
}
)";

std::string add_ptx(Kernel kernel) {
  const bool waits = kernel == Kernel::waiting;
  std::string text(waits ? kWaitingBegin : kPlainBegin);
  text += kAddDeclared;
  if (waits) text += "\tgriddepcontrol.wait;\n";
  return text += kAddBody;
}

// How the dispatches of a list depend on each other.
enum class Order { independent, waves, chain };
const char* to_string(Order order) {
  switch (order) {
    case Order::independent: return "independent";
    case Order::waves: return "waves_of_8";
    case Order::chain: return "chain";
  }
  return "";
}

// Which arrays dispatch k binds. Those of a wave read what the wave before wrote.
struct Arrays {
  size_t a;
  size_t b;
  size_t out;
};
Arrays arrays_of(Order order, size_t k) {
  switch (order) {
    case Order::independent: return {0, 1, 2 + k};
    case Order::waves: {
      const size_t lane = k % kCudaWave;
      const size_t side = k / kCudaWave % 2;
      return {2 + kCudaWave * side + lane, 0, 2 + kCudaWave * (1 - side) + lane};
    }
    case Order::chain: return {2 + k % 2, 0, 3 - k % 2};
  }
  return {};
}
bool begins_wave(Order order, size_t k) {
  return order == Order::chain || (order == Order::waves && k % kCudaWave == 0);
}

Ref<CudaDevice> open_cuda_device(benchmark::State& state) {
  // Destroyed, and so closed, before what the driver registered for the exit when it was loaded.
  static Result<Ref<CudaDevice>> device = CudaDevice::open({.queues = 1});
  if (!device) {
    state.SkipWithError(("skipped: " + device.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(device.value()->info().description);
  return device.value();
}

PipelineDesc add_kernel(Kernel kernel = Kernel::plain) {
  CudaModule module;
  const std::string text = add_ptx(kernel);
  const auto bytes = std::as_bytes(std::span(text));
  module.code.assign(bytes.begin(), bytes.end());
  module.waits_for_grids = kernel == Kernel::waiting;
  module.entry_point = "add";
  module.threads = {256, 1, 1};
  return {"add", std::move(module), 3, 4_B};
}

// --- Ours: the device contract ------------------------------------------------------------------

struct OursOnCuda {
  explicit OursOnCuda(Ref<CudaDevice> opened, Kernel which = Kernel::plain)
      : device(std::move(opened)) {
    kernel = device->create_pipeline(add_kernel(which)).or_raise();
    block =
        device->create_buffer({kCudaArray * kCudaArrays, MemoryKind::device, "block"}).or_raise();
    for (uint64_t i = 0; i < kCudaArrays; ++i) {
      arrays.push_back(Ref<Allocation>(
          new Allocation(block, {Bytes{i * kCudaArray.value}, kCudaArray}, "array", nullptr)));
    }
  }
  Queue& queue() const { return *device->queues()[0]; }
  // With the memory of one that is over, as streams do it.
  CommandList list() {
    return CommandList(device->info(), "batch", LaneId::next(), std::exchange(storage, {}));
  }
  void dispatch(CommandList& list, Order order, size_t k) const {
    const Arrays at = arrays_of(order, k);
    const float bias = static_cast<float>(k + ++serial);
    list.dispatch(
        kernel,
        std::array{Binding::of(arrays[at.a], Access::read), Binding::of(arrays[at.b], Access::read),
                   Binding::of(arrays[at.out], Access::write)},
        Parameters::of(bias), {1, 1, 1});
  }
  void wait(const Point& point) {
    point.timeline->wait(point.value, sync::Deadline::never());
    for (const auto& over : queue().retire()) storage = over->list.take_storage();
  }

  Ref<CudaDevice> device;
  Ref<Pipeline> kernel;
  Ref<Buffer> block;
  std::vector<Ref<Allocation>> arrays;
  ListStorage storage;
  mutable size_t serial = 0;  // parameters are new each time
};

// --- The reference: CUDA by hand ----------------------------------------------------------------

// How a graph by hand is made.
struct ByHand {
  Kernel kernel = Kernel::plain;
  bool programmatic = false;  // every edge
  bool block_arguments =
      false;  // one block of bytes for each node, not a pointer for each argument
};

struct RawCuda {
  explicit RawCuda(Ref<CudaDevice> opened, const ByHand& by = {})
      : how(by),
        ours(std::move(opened), by.kernel),
        api(CudaApi::load().or_raise()),
        cu(api->calls()) {
    context = static_cast<cu::CUcontext>(ours.device->context());
    cu.cuCtxPushCurrent(context);
    cu.cuStreamCreate(&stream, cu::CU_STREAM_NON_BLOCKING);
    void* host = nullptr;
    cu.cuMemHostAlloc(&host, 4096, cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP);
    counter = static_cast<std::atomic<uint64_t>*>(host);
    counter->store(0);
    cu.cuMemHostGetDevicePointer(&counter_address, host, 0);
    function = static_cast<const CudaPipeline&>(*ours.kernel).function();
    base = static_cast<const CudaBuffer&>(*ours.block).address();
  }
  ~RawCuda() {
    cu.cuStreamSynchronize(stream);
    if (pool != nullptr) cu.cuMemPoolDestroy(pool);
    for (Executable& e : executables) {
      cu.cuGraphExecDestroy(e.exec);
      cu.cuGraphDestroy(e.graph);
    }
    cu.cuMemFreeHost(counter);
    cu.cuStreamDestroy(stream);
    cu.cuCtxPopCurrent(&context);
  }
  RawCuda(const RawCuda&) = delete;
  RawCuda& operator=(const RawCuda&) = delete;

  struct Arguments {
    uint64_t a;
    uint64_t b;
    uint64_t out;
    float bias;
  };
  Arguments arguments(Order order, size_t k) {
    const Arrays at = arrays_of(order, k);
    const auto address = [&](size_t i) { return base + i * kCudaArray.value; };
    return {address(at.a), address(at.b), address(at.out), static_cast<float>(k + ++serial)};
  }
  void launch(Order order, size_t k) { launch(arguments(order, k)); }
  void launch(Arguments values) {
    void* pointers[] = {&values.a, &values.b, &values.out, &values.bias};
    cu.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream, pointers, nullptr);
  }

  // Memory of the stream, from a pool that keeps what is freed.
  cu::CUdeviceptr allocate(Bytes size) {
    if (pool == nullptr) {
      cu::CUmemPoolProps properties;
      properties.allocType = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, 0};
      cu.cuMemPoolCreate(&pool, &properties);
      uint64_t kept = UINT64_MAX;
      cu.cuMemPoolSetAttribute(pool, cu::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
    }
    cu::CUdeviceptr address = 0;
    cu.cuMemAllocFromPoolAsync(&address, size.value, pool, stream);
    return address;
  }
  void free(cu::CUdeviceptr address) { cu.cuMemFreeAsync(address, stream); }

  struct Executable {
    cu::CUgraph graph = nullptr;
    cu::CUgraphExec exec = nullptr;
    std::vector<cu::CUgraphNode> nodes;
    uint64_t value = 0;  // of its last launch
  };
  // One that is not in flight.
  Executable& executable(Order order) {
    for (Executable& e : executables) {
      if (counter->load(std::memory_order_acquire) >= e.value) return e;
    }
    Executable& made = executables.emplace_back();
    cu.cuGraphCreate(&made.graph, 0);
    std::vector<cu::CUgraphNode> before;
    std::vector<cu::CUgraphNode> here;
    for (size_t k = 0; k < kCudaBatch; ++k) {
      if (begins_wave(order, k)) before = std::exchange(here, {});
      // Wider graphs cost the launch: more than eight side by side are lanes.
      const bool lane = here.size() >= kCudaWave;
      Arguments values = arguments(order, k);
      void* pointers[] = {&values.a, &values.b, &values.out, &values.bias};
      const cu::CudaKernelNodeParams params = node_params(pointers);
      cu::CUgraphNode node = nullptr;
      const std::span<const cu::CUgraphNode> after =
          lane ? std::span<const cu::CUgraphNode>(&here[k % kCudaWave], 1) : before;
      cu.cuGraphAddKernelNode(&node, made.graph, after.data(), how.programmatic ? 0 : after.size(),
                              &params);
      if (how.programmatic && !after.empty()) {
        cu::CUgraphEdgeData edge;
        edge.type = cu::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        edge.from_port = cu::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        const std::vector<cu::CUgraphNode> to(after.size(), node);
        const std::vector<cu::CUgraphEdgeData> edges(after.size(), edge);
        failed |= cu.cuGraphAddDependencies(made.graph, after.data(), to.data(), edges.data(),
                                            after.size()) != cu::CUDA_SUCCESS;
      }
      if (lane) {
        here[k % kCudaWave] = node;
      } else {
        here.push_back(node);
      }
      made.nodes.push_back(node);
    }
    failed |= cu.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0) != cu::CUDA_SUCCESS;
    return made;
  }
  cu::CudaKernelNodeParams node_params(void** pointers) const {
    cu::CudaKernelNodeParams params;
    params.func = function;
    params.blockDimX = 256;
    params.kernelParams = pointers;
    return params;
  }
  void launch_graph(Order order) {
    launch_graph(order, [&](size_t k) { return arguments(order, k); });
  }
  template <typename ArgumentsOf>
  void launch_graph(Order order, const ArgumentsOf& arguments_of) {
    Executable& e = executable(order);
    for (size_t k = 0; k < kCudaBatch; ++k) {
      Arguments values = arguments_of(k);
      void* pointers[] = {&values.a, &values.b, &values.out, &values.bias};
      cu::CudaKernelNodeParams params = node_params(pointers);
      size_t size = offsetof(Arguments, bias) + sizeof(values.bias);
      // NOLINTBEGIN(performance-no-int-to-ptr): tags, which the driver has as pointers
      void* extra[] = {reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_POINTER), &values,
                       reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_SIZE), &size,
                       reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_END)};
      // NOLINTEND(performance-no-int-to-ptr)
      if (how.block_arguments) {
        params.kernelParams = nullptr;
        params.extra = extra;
      }
      cu.cuGraphExecKernelNodeSetParams(e.exec, e.nodes[k], &params);
    }
    cu.cuGraphLaunch(e.exec, stream);
    e.value = signal();
  }
  uint64_t signal() {
    cu.cuStreamWriteValue64(stream, counter_address, ++value, 0);
    return value;
  }
  void wait() const {
    for (unsigned attempt = 0; counter->load(std::memory_order_acquire) < value; ++attempt) {
      sync::relax(attempt);
    }
  }

  const ByHand how;
  OursOnCuda ours;
  std::shared_ptr<const CudaApi> api;
  const cu::Calls& cu;
  cu::CUcontext context = nullptr;
  cu::CUstream stream = nullptr;
  cu::CUfunction function = nullptr;
  std::atomic<uint64_t>* counter = nullptr;
  cu::CUdeviceptr counter_address = 0;
  cu::CUdeviceptr base = 0;
  cu::CUmemoryPool pool = nullptr;
  uint64_t value = 0;
  size_t serial = 0;
  std::deque<Executable> executables;
  bool failed = false;  // the driver refuses such a graph
};

// --- Rows ---------------------------------------------------------------------------------------

// The host's time for a list, or the time until it is drained.
enum class Until { given, drained };

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(sync::now() - start_).count(); }

 private:
  sync::TimePoint start_ = sync::now();
};

template <typename Give, typename Wait>
void measure(benchmark::State& state, Until until, const Give& give, const Wait& wait) {
  for (int i = 0; i < 4; ++i) {  // shapes are learned
    give();
    wait();
  }
  for (auto _ : state) {
    const Stopwatch watch;
    give();
    if (until == Until::drained) wait();
    state.SetIterationTime(watch.seconds());
    if (until == Until::given) wait();
  }
  state.counters["per"] = kCudaBatch;
}

// Whether kernels can wait for grids, and graphs make use of it.
bool can_overlap(benchmark::State& state, const CudaDevice& device) {
  const auto api = CudaApi::load().or_raise();
  const int architecture = std::stoi(device.info().architecture.substr(3));  // of "sm_90"
  const bool can = architecture >= 90 && api->calls().cuGraphAddDependencies != nullptr;
  if (!can) state.SkipWithError("skipped: no programmatic edges on this GPU or driver");
  return can;
}

void list_of(benchmark::State& state, Order order, Until until, Kernel kernel) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device || (kernel == Kernel::waiting && !can_overlap(state, *device))) return;
  OursOnCuda f(device, kernel);
  Point last;
  measure(
      state, until,
      [&] {
        CommandList list = f.list();
        for (size_t k = 0; k < kCudaBatch; ++k) {
          if (begins_wave(order, k)) list.barrier();
          f.dispatch(list, order, k);
        }
        last = f.queue().submit(list).or_raise();
      },
      [&] { f.wait(last); });
}

void list_ours(benchmark::State& state, Order order, Until until) {
  list_of(state, order, until, Kernel::plain);
}
void waiting_list_ours(benchmark::State& state, Order order, Until until) {
  list_of(state, order, until, Kernel::waiting);
}

// A Program of such a list, replayed.
void program_ours(benchmark::State& state, Order order, Until until) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  OursOnCuda f(device);
  CommandList steps = f.list();
  for (size_t k = 0; k < kCudaBatch; ++k) {
    if (begins_wave(order, k)) steps.barrier();
    const Arrays at = arrays_of(order, k);
    steps.dispatch(f.kernel,
                   std::array{Binding::of(f.arrays[at.a], Access::read),
                              Binding::of(f.arrays[at.b], Access::read),
                              Binding::of(f.arrays[at.out], Access::write)},
                   Parameters::of_replay({Bytes{k * sizeof(float)}, Bytes{sizeof(float)}}),
                   {1, 1, 1});
  }
  const Ref<Program> program = device->create_program(steps).or_raise();
  std::array<float, kCudaBatch> biases{};
  Point last;
  measure(
      state, until,
      [&] {
        for (size_t k = 0; k < kCudaBatch; ++k) biases[k] = static_cast<float>(k + ++f.serial);
        CommandList replay =
            make_replay(device->info(), program, {}, std::as_bytes(std::span(biases)), "replay");
        last = f.queue().submit(replay).or_raise();
      },
      [&] { f.wait(last); });
}

// A stream with arrays of its own.
struct OurStream {
  OurStream(const Ref<runtime::Context>& context, Ref<Pipeline> add)
      : stream(context->new_stream({.name = "bench"})), kernel(std::move(add)) {
    for (size_t i = 0; i < kCudaArrays; ++i) {
      arrays.push_back(stream->allocate(kCudaArray, "array"));
      stream->fill(Binding::of(arrays.back(), Access::write), std::byte{});
    }
    stream->synchronize();
  }
  void dispatch(Order order, size_t k) { dispatch(order, k, arrays[arrays_of(order, k).out]); }
  void dispatch(Order order, size_t k, const Ref<Allocation>& out) {
    const Arrays at = arrays_of(order, k);
    const float bias = static_cast<float>(k + ++serial);
    stream->dispatch(
        kernel,
        std::array{Binding::of(arrays[at.a], Access::read), Binding::of(arrays[at.b], Access::read),
                   Binding::of(out, Access::write)},
        Parameters::of(bias), {1, 1, 1});
  }
  void batch(Order order) {
    for (size_t k = 0; k < kCudaBatch; ++k) dispatch(order, k);
    stream->flush();
  }

  Ref<runtime::Stream> stream;
  Ref<Pipeline> kernel;
  std::vector<Ref<Allocation>> arrays;
  size_t serial = 0;
};

// A context closes its device, so each has one of its own. Null, with the reason said, where there
// is no device.
Ref<runtime::Context> open_cuda_context(benchmark::State& state, uint32_t queues = 1) {
  if (!open_cuda_device(state)) return nullptr;
  return runtime::Context::create(CudaDevice::open({.queues = queues}).or_raise());
}

void stream_ours(benchmark::State& state, Order order, Until until) {
  const auto context = open_cuda_context(state);
  if (!context) return;
  OurStream f(context, context->create_pipeline(add_kernel()));
  measure(
      state, until, [&] { f.batch(order); }, [&] { f.stream->synchronize(); });
}

// What binding holds is in the fixture, so nothing goes wrong without holds.
void stream_without_holds(benchmark::State& state, Order order, Until until) {
#ifdef HOLDFAST_ABLATIONS
  const ScopedAblation memory(Ablation::bound_not_held);
  const ScopedAblation kernels(Ablation::pipelines_not_held);
  stream_ours(state, order, until);
#else
  (void)order;
  (void)until;
  state.SkipWithError("skipped: this build has no ablations");
#endif
}

template <Kernel kKernel, bool kProgrammatic, bool kBlockArguments>
void raw_graph_of(benchmark::State& state, Order order, Until until) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device || (kKernel == Kernel::waiting && !can_overlap(state, *device))) return;
  RawCuda f(device, {kKernel, kProgrammatic, kBlockArguments});
  (void)f.executable(order);
  if (f.failed) return state.SkipWithError("skipped: the driver refuses such a graph");
  measure(
      state, until, [&] { f.launch_graph(order); }, [&] { f.wait(); });
}
constexpr auto& raw_graph = raw_graph_of<Kernel::plain, false, false>;
constexpr auto& raw_graph_with_blocks = raw_graph_of<Kernel::plain, false, true>;
constexpr auto& raw_waiting_graph = raw_graph_of<Kernel::waiting, false, false>;
constexpr auto& raw_overlapping_graph = raw_graph_of<Kernel::waiting, true, false>;

void raw_launches(benchmark::State& state, Order order, Until until) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  measure(
      state, until,
      [&] {
        for (size_t k = 0; k < kCudaBatch; ++k) f.launch(order, k);
        f.signal();
      },
      [&] { f.wait(); });
}

// Every dispatch writes memory that was allocated for it, and that nobody wants afterwards.
void stream_allocating(benchmark::State& state, Order order, Until until) {
  const auto context = open_cuda_context(state);
  if (!context) return;
  OurStream f(context, context->create_pipeline(add_kernel()));
  measure(
      state, until,
      [&] {
        for (size_t k = 0; k < kCudaBatch; ++k) {
          f.dispatch(order, k, f.stream->allocate(kCudaArray, "out"));
        }
        f.stream->flush();
      },
      [&] { f.stream->synchronize(); });
}
void raw_launches_allocating(benchmark::State& state, Order order, Until until) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  measure(
      state, until,
      [&] {
        for (size_t k = 0; k < kCudaBatch; ++k) {
          RawCuda::Arguments values = f.arguments(order, k);
          values.out = f.allocate(kCudaArray);
          f.launch(values);
          f.free(values.out);
        }
        f.signal();
      },
      [&] { f.wait(); });
}
void raw_graph_allocating(benchmark::State& state, Order order, Until until) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  std::array<cu::CUdeviceptr, kCudaBatch> outs{};
  measure(
      state, until,
      [&] {
        f.launch_graph(order, [&](size_t k) {
          RawCuda::Arguments values = f.arguments(order, k);
          values.out = outs[k] = f.allocate(kCudaArray);
          return values;
        });
        for (const cu::CUdeviceptr out : outs) f.free(out);
      },
      [&] { f.wait(); });
}

// --- Threads ------------------------------------------------------------------------------------

constexpr size_t kThreadBatches = 32;  // of each thread

// From the first launch of any of the threads until all that they launched is done; `work` is one
// thread's, its number given.
template <typename Work>
void measure_threads(benchmark::State& state, size_t count, const Work& work) {
  for (auto _ : state) {
    const Stopwatch watch;
    {
      std::vector<sync::Thread> threads;
      for (size_t i = 0; i < count; ++i) threads.emplace_back("launcher", [&, i] { work(i); });
    }
    state.SetIterationTime(watch.seconds());
  }
  state.counters["per"] = static_cast<double>(count * kThreadBatches * kCudaBatch);
}

void threads_ours(benchmark::State& state, size_t count) {
  const auto context = open_cuda_context(state, static_cast<uint32_t>(count));
  if (!context) return;
  const Ref<Pipeline> kernel = context->create_pipeline(add_kernel());
  std::vector<OurStream> all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(context, kernel);
  measure_threads(state, count, [&](size_t i) {
    for (size_t n = 0; n < kThreadBatches; ++n) all[i].batch(Order::independent);
    all[i].stream->synchronize();
  });
}
void threads_raw(benchmark::State& state, size_t count) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  std::deque<RawCuda> all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(device);
  measure_threads(state, count, [&](size_t i) {
    RawCuda& f = all[i];
    f.cu.cuCtxPushCurrent(f.context);
    for (size_t n = 0; n < kThreadBatches; ++n) {
      for (size_t k = 0; k < kCudaBatch; ++k) f.launch(Order::independent, k);
      f.signal();
    }
    f.wait();
    cu::CUcontext popped = nullptr;
    f.cu.cuCtxPopCurrent(&popped);
  });
}

// --- Memory -------------------------------------------------------------------------------------

constexpr Bytes kAllocated = 64_KiB;

void cuda_allocate_ours(benchmark::State& state) {
  const auto context = open_cuda_context(state);
  if (!context) return;
  const auto stream = context->new_stream({.name = "bench"});
  for (auto _ : state) benchmark::DoNotOptimize(stream->allocate(kAllocated, "memory"));
}
void cuda_allocate_raw(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  for (auto _ : state) f.free(f.allocate(kAllocated));
}

// Lists with one dispatch.
void cuda_submit_ours(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  OursOnCuda f(device);
  for (auto _ : state) {
    std::vector<CommandList> lists;
    for (size_t i = 0; i < kCudaSubmits; ++i) {
      lists.emplace_back(device->info(), "one");
      f.dispatch(lists.back(), Order::independent, i);
    }
    Point last;
    const Stopwatch watch;
    for (CommandList& list : lists) last = f.queue().submit(list).or_raise();
    state.SetIterationTime(watch.seconds());
    f.wait(last);
  }
  state.counters["per"] = kCudaSubmits;
}
void cuda_submit_raw(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  for (auto _ : state) {
    const Stopwatch watch;
    for (size_t i = 0; i < kCudaSubmits; ++i) {
      f.launch(Order::independent, i);
      f.signal();
    }
    state.SetIterationTime(watch.seconds());
    f.wait();
  }
  state.counters["per"] = kCudaSubmits;
}

// Making a context current and the one before it again: once for each list.
void cuda_context_switch(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  const auto api = CudaApi::load().or_raise();
  const cu::Calls& cu = api->calls();
  auto* const context = static_cast<cu::CUcontext>(device->context());
  cu::CUcontext popped = nullptr;
  for (auto _ : state) {
    cu.cuCtxPushCurrent(context);
    cu.cuCtxPopCurrent(&popped);
  }
}
void cuda_context_query(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  const auto api = CudaApi::load().or_raise();
  cu::CUcontext current = nullptr;
  for (auto _ : state) api->calls().cuCtxGetCurrent(&current);
}

// From the first call to a number on the host: dispatch, copy, submit, wait, read.
void cuda_readback_ours(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  OursOnCuda f(device);
  const auto result = Allocation::whole(
      device->create_buffer({kCudaArray, MemoryKind::readback, "result"}).or_raise());
  float sum = 0;
  for (auto _ : state) {
    CommandList list(device->info(), "one");
    f.dispatch(list, Order::independent, 0);
    list.barrier();
    list.copy(f.arrays[2], {{}, kCudaArray}, result, {{}, kCudaArray});
    f.wait(f.queue().submit(list).or_raise());
    float value = 0;
    std::memcpy(&value, result->host_pointer(), sizeof value);
    sum += value;
  }
  benchmark::DoNotOptimize(sum);
}
void cuda_readback_stream(benchmark::State& state) {
  const auto context = open_cuda_context(state);
  if (!context) return;
  OurStream f(context, context->create_pipeline(add_kernel()));
  std::vector<std::byte> result(kCudaArray.value);
  for (auto _ : state) {
    f.dispatch(Order::independent, 0);
    f.stream->readback(f.arrays[2], {}, result);
  }
  benchmark::DoNotOptimize(result.data());
}
void cuda_readback_raw(benchmark::State& state) {
  const Ref<CudaDevice> device = open_cuda_device(state);
  if (!device) return;
  RawCuda f(device);
  void* host = nullptr;
  f.cu.cuMemHostAlloc(&host, kCudaArray.value, cu::CU_MEMHOSTALLOC_PORTABLE);
  float sum = 0;
  for (auto _ : state) {
    f.launch(Order::independent, 0);
    f.cu.cuMemcpyAsync(reinterpret_cast<uint64_t>(host), f.base + 2 * kCudaArray.value,
                       kCudaArray.value, f.stream);
    f.signal();
    f.wait();
    float value = 0;
    std::memcpy(&value, host, sizeof value);
    sum += value;
  }
  benchmark::DoNotOptimize(sum);
  f.cu.cuMemFreeHost(host);
}

const bool kCudaRegistered = [] {
  using Row = void (*)(benchmark::State&, Order, Until);
  const auto pair = [](const std::string& name, Row ours, Row reference, Order order, Until until) {
    benchmark::RegisterBenchmark((name + "/ours").c_str(), [=](benchmark::State& s) {
      ours(s, order, until);
    })->UseManualTime();
    benchmark::RegisterBenchmark((name + "/reference").c_str(), [=](benchmark::State& s) {
      reference(s, order, until);
    })->UseManualTime();
  };
  for (const Order order : {Order::independent, Order::waves, Order::chain}) {
    for (const Until until : {Until::given, Until::drained}) {
      const std::string kind =
          std::string(to_string(order)) + (until == Until::given ? "" : "_drained");
      pair("cuda_list_" + kind, list_ours, raw_graph, order, until);
      pair("cuda_stream_" + kind, stream_ours, raw_graph, order, until);
      pair("cuda_list_against_launches_" + kind, list_ours, raw_launches, order, until);
      pair("cuda_program_" + kind, program_ours, raw_graph, order, until);
      pair("cuda_waiting_list_" + kind, waiting_list_ours, raw_overlapping_graph, order, until);
      // By hand: what programmatic edges, and arguments as blocks, are worth.
      pair("cuda_raw_programmatic_" + kind, raw_overlapping_graph, raw_waiting_graph, order, until);
      pair("cuda_raw_blocks_" + kind, raw_graph_with_blocks, raw_graph, order, until);
    }
  }
  benchmark::RegisterBenchmark("cuda_context_switch/ours", cuda_context_switch);
  benchmark::RegisterBenchmark("cuda_context_switch/reference", cuda_context_query);
  for (const Until until : {Until::given, Until::drained}) {
    const std::string drained = until == Until::given ? "" : "_drained";
    const Order order = Order::independent;
    pair("cuda_stream_allocating" + drained, stream_allocating, raw_graph_allocating, order, until);
    pair("cuda_stream_allocating_against_launches" + drained, stream_allocating,
         raw_launches_allocating, order, until);
  }
  for (const Order order : {Order::independent, Order::chain}) {
    pair(std::string("cuda_stream_holds_") + to_string(order), stream_ours, stream_without_holds,
         order, Until::given);
  }
  for (const size_t count : {1, 2, 4, 8, 16}) {
    const std::string name = "cuda_stream_threads_" + std::to_string(count);
    benchmark::RegisterBenchmark((name + "/ours").c_str(), [=](benchmark::State& s) {
      threads_ours(s, count);
    })->UseManualTime();
    benchmark::RegisterBenchmark((name + "/reference").c_str(), [=](benchmark::State& s) {
      threads_raw(s, count);
    })->UseManualTime();
  }
  benchmark::RegisterBenchmark("cuda_allocate/ours", cuda_allocate_ours)->UseRealTime();
  benchmark::RegisterBenchmark("cuda_allocate/reference", cuda_allocate_raw)->UseRealTime();
  benchmark::RegisterBenchmark("cuda_readback_stream/ours", cuda_readback_stream)->UseRealTime();
  benchmark::RegisterBenchmark("cuda_readback_stream/reference", cuda_readback_raw)->UseRealTime();
  benchmark::RegisterBenchmark("cuda_submit/ours", cuda_submit_ours)->UseManualTime();
  benchmark::RegisterBenchmark("cuda_submit/reference", cuda_submit_raw)->UseManualTime();
  benchmark::RegisterBenchmark("cuda_readback/ours", cuda_readback_ours)->UseRealTime();
  benchmark::RegisterBenchmark("cuda_readback/reference", cuda_readback_raw)->UseRealTime();
  return true;
}();

}  // namespace
}  // namespace holdfast::hal
