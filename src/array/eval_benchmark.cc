#include "holdfast/eval.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/ops.h"
#include "holdfast/runtime/stream.h"

namespace holdfast {
namespace {

DeviceOptions options(const SubmitLimits& submit = {}) {
  DeviceOptions options;
  options.kernels.disk = nullptr;
  options.submit = submit;
  return options;
}

Device one_queue(const SubmitLimits& submit = {}) {
  return Device(hal::CpuDevice::open({.queues = 1, .helpers = 0}), options(submit));
}

const Kernel& tiny() {
  static const Kernel kernel({.name = "tiny",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .source = "uint i = thread_position_in_grid.x; y[i] = x[i] + 1.0f;"});
  return kernel;
}

Array call_tiny(const Array& x) {
  return tiny()({x}, {.grid = {1, 1, 1},
                      .threadgroup = {1, 1, 1},
                      .output_shapes = {{1}},
                      .output_dtypes = {float32}})[0];
}

enum class Graph : uint8_t { chain, wide };

std::vector<Array> build(Graph graph, const Array& x, int64_t nodes) {
  std::vector<Array> roots;
  if (graph == Graph::wide) {
    roots.reserve(static_cast<size_t>(nodes));
    for (int64_t i = 0; i < nodes; ++i) roots.push_back(call_tiny(x));
    return roots;
  }
  Array y = x;
  for (int64_t i = 0; i < nodes; ++i) y = call_tiny(y);
  roots.push_back(std::move(y));
  return roots;
}

double seconds_since(sync::TimePoint start) {
  return std::chrono::duration<double>(sync::now() - start).count();
}

// Fewer repetitions of what takes long: at least 100,000 nodes each.
int64_t rounds_of(int64_t nodes) { return std::max<int64_t>(1, 100'000 / nodes); }

void build_graph(benchmark::State& state, Graph graph, int64_t nodes) {
  const Device device = one_queue();
  const Array x = full({1}, 1.0, float32, device);
  eval(call_tiny(x));
  const int64_t rounds = rounds_of(nodes);
  for (auto _ : state) {
    double seconds = 0;
    for (int64_t r = 0; r < rounds; ++r) {
      const auto start = sync::now();
      const std::vector<Array> roots = build(graph, x, nodes);
      seconds += seconds_since(start);
    }
    state.SetIterationTime(seconds);
  }
  state.counters["per"] = static_cast<double>(nodes * rounds);
}

// From the call of async_eval to its return: planned, recorded, submitted. The reference records
// and submits the same dispatches of the same pipeline on the same kind of stream.
void schedule_graph(benchmark::State& state, Graph graph, int64_t nodes) {
  const Device device = one_queue();
  const Array x = full({1}, 1.0, float32, device);
  eval(call_tiny(x));
  const int64_t rounds = rounds_of(nodes);
  for (auto _ : state) {
    double seconds = 0;
    for (int64_t r = 0; r < rounds; ++r) {
      const std::vector<Array> roots = build(graph, x, nodes);
      const auto start = sync::now();
      async_eval(roots);
      seconds += seconds_since(start);
      device.synchronize();
    }
    state.SetIterationTime(seconds);
  }
  state.counters["per"] = static_cast<double>(nodes * rounds);
}

void raw_graph(benchmark::State& state, Graph graph, int64_t nodes) {
  const Device device = one_queue();
  const Ref<runtime::Stream>& stream = device.default_stream().runtime_stream();
  constexpr std::array<int64_t, 1> shape{1};
  const auto memory = [&] { return stream->allocate(4_B); };
  Ref<hal::Allocation> x = memory();
  stream->fill(hal::Binding::of(x, hal::Access::write), std::byte{});
  const std::array in{kernel::ArrayRef(x, float32, shape)};
  const Ref<const kernel::Variant> variant = [&] {
    const Ref<hal::Allocation> y = memory();
    const std::array other{kernel::ArrayRef(y, float32, shape)};
    return device.kernels().prepare(
        tiny(), {.inputs = in, .outputs = other, .grid = {}, .threadgroup = {}});
  }();
  std::vector<std::byte> parameters(variant->interface.parameter_bytes.value);
  const kernel::LaunchBlock block{{1, 1, 1}, {1, 1, 1}, {}, 64};
  std::memcpy(parameters.data(), &block, sizeof block);
  const int64_t rounds = rounds_of(nodes);
  for (auto _ : state) {
    double seconds = 0;
    for (int64_t r = 0; r < rounds; ++r) {
      // What arrays allocate is allocated here beforehand: it is no part of encoding.
      std::vector<Ref<hal::Allocation>> all{x};
      for (int64_t i = 0; i < (graph == Graph::chain ? std::min<int64_t>(nodes, 2) : nodes); ++i) {
        all.push_back(memory());
      }
      const auto start = sync::now();
      for (int64_t i = 0; i < nodes; ++i) {
        const bool chain = graph == Graph::chain;
        const auto& from = chain ? all[static_cast<size_t>(i == 0 ? 0 : 1 + (i + 1) % 2)] : all[0];
        const auto& to = chain ? all[static_cast<size_t>(1 + i % std::min<int64_t>(nodes, 2))]
                               : all[static_cast<size_t>(i + 1)];
        const std::array bindings{hal::Binding::of(from, hal::Access::read),
                                  hal::Binding::of(to, hal::Access::write)};
        stream->dispatch(variant->pipeline, bindings, std::span<const std::byte>(parameters),
                         {1, 1, 1});
        if (i % 64 == 63) stream->flush();
      }
      stream->flush();
      seconds += seconds_since(start);
      device.synchronize();
    }
    state.SetIterationTime(seconds);
  }
  state.counters["per"] = static_cast<double>(nodes * rounds);
}

// Threads that each build and evaluate chains of a hundred nodes; per node of all of them.
void threads(benchmark::State& state, int count, bool own_streams) {
  const Device device(hal::CpuDevice::open({.queues = 2, .helpers = 0}), options());
  eval(call_tiny(full({1}, 1.0, float32, device)));
  constexpr int kChains = 100;
  constexpr int kLength = 100;
  for (auto _ : state) {
    const auto start = sync::now();
    {
      std::vector<sync::Thread> all;
      for (int t = 0; t < count; ++t) {
        all.emplace_back("evaluator", [&] {
          const UseStream scope(own_streams ? device.new_stream() : device.default_stream());
          for (int c = 0; c < kChains; ++c) {
            Array y = full({1}, 1.0);
            for (int i = 0; i < kLength; ++i) y = call_tiny(y);
            async_eval(y);
          }
        });
      }
    }
    state.SetIterationTime(seconds_since(start));
    device.synchronize();
  }
  state.counters["per"] = static_cast<double>(count) * kChains * kLength;
}

// Whether more threads do more work: each has a stream, a queue and memory of its own, on a device
// that costs next to nothing, since lists run inside the call that submits them. Per node of all of
// them; reference: the same loop in as many processes, which share nothing.
constexpr int kScalingChains = 200;
constexpr int kScalingLength = 100;

Device caller_runs(uint32_t queues) {
  return Device(hal::CpuDevice::open({.queues = queues, .helpers = 0, .immediate = true}),
                options());
}

void run_chains(const Stream& stream) {
  const UseStream scope(stream);
  for (int c = 0; c < kScalingChains; ++c) {
    Array y = full({1}, 1.0);
    for (int i = 0; i < kScalingLength; ++i) y = call_tiny(y);
    async_eval(y);
  }
}

// Runs `work` in `count` threads that begin together; seconds until the last has ended.
double run_together(int count, const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<sync::Thread> all;
  for (int t = 0; t < count; ++t) {
    all.emplace_back("evaluator", [&, t] {
      ready.fetch_add(1);
      go.wait(false);
      work(t);
    });
  }
  while (ready.load() < count) sync::relax(0);
  const auto start = sync::now();
  go.store(true);
  go.notify_all();
  all.clear();
  return seconds_since(start);
}

void scaling_threads(benchmark::State& state, int count, bool own_streams) {
  const Device device = caller_runs(static_cast<uint32_t>(count));
  std::vector<Stream> streams;
  for (int t = 0; t < count; ++t) {
    streams.push_back(own_streams || t == 0 ? device.new_stream() : streams[0]);
    run_chains(streams.back());
  }
  for (auto _ : state) {
    state.SetIterationTime(
        run_together(count, [&](int t) { run_chains(streams[static_cast<size_t>(t)]); }));
  }
  state.counters["per"] = static_cast<double>(count) * kScalingChains * kScalingLength;
}

// Processes that run the chains each time they are told to.
class Workers {
 public:
  explicit Workers(int count) {
    for (int i = 0; i < count; ++i) {
      Worker& worker = all_.emplace_back();
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, worker.ends.data()) != 0) {
        throw EnvironmentError("no socket for a worker process");
      }
      worker.process = fork();
      if (worker.process == 0) {
        for (const Worker& other : all_) close(other.ends[0]);
        serve(worker.ends[1]);
      }
      close(worker.ends[1]);
      hear(worker);  // it is warm
    }
  }
  ~Workers() {
    for (const Worker& worker : all_) {
      close(worker.ends[0]);  // it ends then
      waitpid(worker.process, nullptr, 0);
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Seconds until the last has ended.
  double run() {
    const auto start = sync::now();
    for (const Worker& worker : all_) {
      if (write(worker.ends[0], "r", 1) != 1) throw EnvironmentError("a worker process is gone");
    }
    for (const Worker& worker : all_) hear(worker);
    return seconds_since(start);
  }

 private:
  struct Worker {
    std::array<int, 2> ends{};
    pid_t process = 0;
  };
  [[noreturn]] static void serve(int end) {
    try {
      const Device device = caller_runs(1);
      const Stream stream = device.new_stream();
      char word = 'w';
      do {
        run_chains(stream);
      } while (write(end, &word, 1) == 1 && read(end, &word, 1) == 1);
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "a worker process: %s\n", error.what());
      _exit(1);
    }
  }
  static void hear(const Worker& worker) {
    char word = 0;
    if (read(worker.ends[0], &word, 1) != 1) throw EnvironmentError("a worker process is gone");
  }
  std::vector<Worker> all_;
};

void scaling_processes(benchmark::State& state, int count) {
  Workers workers(count);
  for (auto _ : state) state.SetIterationTime(workers.run());
  state.counters["per"] = static_cast<double>(count) * kScalingChains * kScalingLength;
}

// One small kernel called again and again, each result submitted at once: what a call costs must
// not depend on how many went before.
void calls(benchmark::State& state, int64_t count) {
  const Device device = one_queue();
  eval(call_tiny(full({1}, 1.0, float32, device)));
  for (auto _ : state) {
    Array y = full({1}, 1.0, float32, device);
    const auto start = sync::now();
    for (int64_t i = 0; i < count; ++i) {
      y = call_tiny(y);
      async_eval(y);
    }
    state.SetIterationTime(seconds_since(start));
    device.synchronize();
  }
  state.counters["per"] = static_cast<double>(count);
}

// The whole of a graph of kernels that take about 20 us, from the first node to the result, for
// several limits of early submits; reference: one submission at the end.
void early_submit(benchmark::State& state, uint32_t commands) {
  const Device device = one_queue({.commands = commands, .time = std::chrono::hours(1)});
  const Array x = full({16384}, 1.0, float32, device);
  const auto graph = [&] {
    Array y = x;
    for (int i = 0; i < 256; ++i) y = exp(y * 0.001F);
    return y;
  };
  eval(graph());
  for (auto _ : state) {
    const auto start = sync::now();
    eval(graph());
    state.SetIterationTime(seconds_since(start));
  }
  state.counters["per"] = 512;
}

// Building x + 1.0f.
void build_elementwise(benchmark::State& state) {
  const Device device = one_queue();
  const Array x = full({1}, 1.0, float32, device);
  eval(x + 1.0F);
  constexpr int kNodes = 10'000;
  for (auto _ : state) {
    const auto start = sync::now();
    Array y = x;
    for (int i = 0; i < kNodes; ++i) y = y + 1.0F;
    state.SetIterationTime(seconds_since(start));
  }
  state.counters["per"] = kNodes;
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto&& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime();
  };
  for (const auto& [graph, word] :
       {std::pair(Graph::chain, "chain"), std::pair(Graph::wide, "wide")}) {
    for (const int64_t nodes : {100, 10'000, 1'000'000}) {
      const Graph g = graph;
      add(fmt::format("array_build_{}_{}/ours", word, nodes),
          [=](benchmark::State& s) { build_graph(s, g, nodes); });
      add(fmt::format("array_schedule_{}_{}/ours", word, nodes),
          [=](benchmark::State& s) { schedule_graph(s, g, nodes); });
      add(fmt::format("array_schedule_{}_{}/reference", word, nodes),
          [=](benchmark::State& s) { raw_graph(s, g, nodes); });
    }
  }
  for (const int count : {1, 2, 4, 16, 32}) {
    add(fmt::format("array_threads_own_streams_{}/ours", count),
        [=](benchmark::State& s) { threads(s, count, true); });
    add(fmt::format("array_threads_one_stream_{}/ours", count),
        [=](benchmark::State& s) { threads(s, count, false); });
  }
  for (const int count : {1, 2, 4, 8, 16}) {
    add(fmt::format("array_scaling_own_streams_{}/ours", count),
        [=](benchmark::State& s) { scaling_threads(s, count, true); });
    add(fmt::format("array_scaling_own_streams_{}/reference", count),
        [=](benchmark::State& s) { scaling_processes(s, count); });
    add(fmt::format("array_scaling_one_stream_{}/ours", count),
        [=](benchmark::State& s) { scaling_threads(s, count, false); });
    add(fmt::format("array_scaling_one_stream_{}/reference", count),
        [](benchmark::State& s) { scaling_threads(s, 1, false); });
  }
  for (const int64_t count : {100, 1000, 10'000}) {
    add(fmt::format("array_calls_{}/ours", count), [=](benchmark::State& s) { calls(s, count); });
    add(fmt::format("array_calls_{}/reference", count), [](benchmark::State& s) { calls(s, 100); });
  }
  for (const uint32_t commands : {8, 32, 64, 128}) {
    add(fmt::format("array_early_submit_{}/ours", commands),
        [=](benchmark::State& s) { early_submit(s, commands); });
    add(fmt::format("array_early_submit_{}/reference", commands),
        [](benchmark::State& s) { early_submit(s, 1'000'000); });
  }
  add("array_build_elementwise/ours", [](benchmark::State& s) { build_elementwise(s); });
  return true;
}();

}  // namespace
}  // namespace holdfast
