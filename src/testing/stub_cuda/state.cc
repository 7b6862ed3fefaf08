#include "holdfast/testing/stub_cuda/state.h"

#include <algorithm>
#include <cstdio>

#include "holdfast/testing/stub_cuda/graph.h"

namespace holdfast::stub_cuda {

namespace {

struct Process {
  sync::Mutex mutex;  // guards state
  State state;
};

// Never destroyed: streams have threads, and callers may come while the process ends.
Process& process() {
  static Process* const forever = new Process;
  return *forever;
}

}  // namespace

State::State() { devices.emplace_back(); }
State::~State() = default;

Held::Held() : state_(process().state), lock_(process().mutex) {}

void violation(State& state, std::string text) {
  std::fprintf(stderr, "stub CUDA driver: violation: %s\n", text.c_str());
  state.violations.push_back(std::move(text));
}

void fault(State& state, Context& context, CUresult error) {
  if (context.error == CUDA_SUCCESS) context.error = error;
  for (const auto& stream : state.active) stream->wake.notify_all();
  state.progress.notify_all();
}

void fault_all(State& state, CUresult error) {
  state.contexts.for_each([&](const auto& context) { fault(state, *context, error); });
}

void shut_down(Held& held) {
  held->has_shut_down = true;
  fault_all(*held, CUDA_ERROR_DEINITIALIZED);
  held.wait(held->progress, [&] {
    return std::ranges::none_of(held->active, [](const auto& stream) { return stream->running; });
  });
}

void count_if_synchronising(State& state, const Context& context, const char* call) {
  for (const auto& stream : state.active) {
    if (stream->context.get() == &context && !stream->queue.empty()) {
      ++state.synchronising[call];
      return;
    }
  }
}

}  // namespace holdfast::stub_cuda
