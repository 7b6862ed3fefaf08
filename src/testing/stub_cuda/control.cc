#include <algorithm>

#include "holdfast/base/error.h"
#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/graph.h"

// The tests' side of the driver.

namespace holdfast::stub_cuda {

namespace {

void check_name(const std::string& call) {
  if (!is_call(call)) throw UsageError("the stub CUDA driver has no call '" + call + "'");
}

void wake_all(State& state) {
  for (const auto& stream : state.active) stream->wake.notify_all();
}

class Control final : public StubControl {
 public:
  void reset() override {
    const Held held;
    held->version = State().version;
    held->hidden.clear();
    held->failing.clear();
    held->calls.clear();
    held->synchronising.clear();
    held->violations.clear();
    held->has_shut_down = false;
    held->devices.assign(1, Device());
    release_locked(*held, nullptr);
  }

  void set_devices(std::vector<StubDevice> devices) override {
    const Held held;
    held->devices.clear();
    for (StubDevice& device : devices) held->devices.push_back({.description = std::move(device)});
  }

  void set_driver_version(int version) override { Held()->version = version; }

  void hide(const std::string& call) override {
    check_name(call);
    Held()->hidden.insert(call);
  }

  void register_kernel(const std::string& name, StubKernel kernel) override {
    Held()->kernels[name] = std::move(kernel);
  }

  void fail(const std::string& call, uint64_t nth, int result, uint64_t times) override {
    check_name(call);
    Held()->failing[call].push_back({nth, times, result});
  }

  void fail_no_more() override { Held()->failing.clear(); }

  void lose(int device, int result) override {
    const Held held;
    if (const auto context = held->contexts.find(held->devices.at(device_index(device)).primary)) {
      fault(*held, *context, result);
    }
  }

  void shut_down() override {
    Held held;
    stub_cuda::shut_down(held);
  }
  void shut_down_at_exit() override { Held()->shuts_down_at_exit = true; }

  void hold(const void* stream) override {
    const Held held;
    if (stream == nullptr) {
      held->all_held = true;
    } else if (const auto found = find_stream(*held, stream)) {
      found->held = true;
    }
  }

  void release(const void* stream) override {
    const Held held;
    release_locked(*held, stream);
  }

  size_t in_flight() const override {
    const Held held;
    return in_flight_locked(*held);
  }

  void drain() override {
    Held held;
    held.wait(held->progress, [&] { return in_flight_locked(*held) == 0; });
  }

  std::map<std::string, size_t> live() const override {
    const Held held;
    std::map<std::string, size_t> kinds;
    // What is left of contexts from before a reset() is nobody's.
    std::set<const Context*> current;
    for (const Device& device : held->devices) {
      current.insert(held->contexts.find(device.primary).get());
      kinds["context"] += device.retains;
    }
    const auto count = [&](const char* kind, const auto& handles) {
      handles.for_each([&](const auto& one) {
        if (current.contains(one->context.get())) ++kinds[kind];
      });
    };
    count("stream", held->streams);
    count("event", held->events);
    count("module", held->modules);
    count("pool", held->pools);
    count("graph", held->graphs);
    count("executable graph", held->execs);
    count("cuBLASLt handle", held->blas);
    kinds["cuBLASLt descriptor"] += held->blas_descriptors;
    for (const auto& [begin, memory] : held->memory) {
      if (!current.contains(memory->context.get()) || memory->free_asked) continue;
      ++kinds[memory->kind == MemoryOf::device ? "device memory"
              : memory->kind == MemoryOf::host ? "pinned memory"
                                               : "registered memory"];
    }
    std::erase_if(kinds, [](const auto& kind) { return kind.second == 0; });
    return kinds;
  }

  StubGraphShape latest_graph() const override { return Held()->latest_graph; }

  uint64_t calls(const std::string& call) const override {
    check_name(call);
    const Held held;
    const auto found = held->calls.find(call);
    return found == held->calls.end() ? 0 : found->second;
  }

  uint64_t synchronising_calls(const std::string& call) const override {
    if (!call.empty()) check_name(call);
    const Held held;
    uint64_t sum = 0;
    for (const auto& [name, count] : held->synchronising) {
      if (call.empty() || call == name) sum += count;
    }
    return sum;
  }

  std::vector<std::string> violations() const override { return Held()->violations; }
  std::vector<std::string> take_violations() override {
    return std::exchange(Held()->violations, {});
  }

 private:
  static size_t device_index(int device) { return static_cast<size_t>(device); }

  static std::shared_ptr<Stream> find_stream(const State& state, const void* stream) {
    return state.streams.find(static_cast<CUstream>(const_cast<void*>(stream)));
  }

  static size_t in_flight_locked(const State& state) {
    size_t sum = 0;
    for (const auto& stream : state.active) sum += stream->queue.size();
    return sum;
  }

  static void release_locked(State& state, const void* stream) {
    if (stream == nullptr) {
      state.all_held = false;
      for (const auto& one : state.active) one->held = false;
      state.streams.for_each([](const auto& one) { one->held = false; });
    } else if (const auto found = find_stream(state, stream)) {
      found->held = false;
    }
    wake_all(state);
  }
};

}  // namespace

}  // namespace holdfast::stub_cuda

// What tests find by dlsym.
extern "C" __attribute__((visibility("default"))) holdfast::stub_cuda::StubControl*
holdfast_stub_cuda_control() {
  static holdfast::stub_cuda::Control control;
  return &control;
}
