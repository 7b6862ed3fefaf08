#include "holdfast/kernel/targets/vulkan/vulkan_target.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/ir/translate.h"

namespace holdfast::kernel {
namespace {

struct TimedBody {
  Definition definition{};
  CallSignature signature{};
};

TimedBody small_body() {
  return {
      .definition = {.name = "axpy",
                     .inputs = {"x", "y"},
                     .outputs = {"z"},
                     .source = "uint i = thread_position_in_grid.x;\nz[i] = T(a * x[i] + y[i]);"},
      .signature = {.inputs = {{}, {}},
                    .outputs = {{}},
                    .constants = {{"T", Dtype::float32}},
                    .params = {{"a", Dtype::float32}}}};
}

// As long as glsl_compile_large: about a hundred lines with functions, templates, half vectors,
// threadgroup memory, barriers, simdgroups, loops and math.
TimedBody large_body() {
  TimedBody body{.definition = {.name = "norms", .inputs = {"x", "w"}, .outputs = {"y"}},
                 .signature = {.inputs = {{Dtype::float16}, {Dtype::float16}},
                               .outputs = {{Dtype::float16}},
                               .constants = {{"N", int64_t{4096}}},
                               .params = {{"eps", Dtype::float32}}}};
  const auto header = std::back_inserter(body.definition.header);
  for (int i = 0; i < 7; ++i) {
    fmt::format_to(header, R"(
template <typename T>
METAL_FUNC T reduce{0}(T value, threadgroup T* partial, uint t) {{
  partial[t] = value;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint s = 128; s > 0; s /= 2) {{
    if (t < s) partial[t] += partial[t + s] * T({0}.5f);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }}
  T all = partial[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return all;
}}
)",
                   i);
  }
  std::string& text = body.definition.source;
  text = R"(
threadgroup float partial[256];
uint row = threadgroup_position_in_grid.x;
uint t = thread_index_in_threadgroup;
const device half4* x4 = reinterpret_cast<const device half4*>(x + row * N);
float sum = 0;
float most = -INFINITY;
for (uint c = t; c < N / 4; c += threads_per_threadgroup.x) {
  float4 v = float4(x4[c]);
  sum += dot(v, v);
  most = metal::max(most, metal::max(metal::max(v.x, v.y), metal::max(v.z, v.w)));
}
most = simd_max(most);
sum = simd_sum(sum);
float scale = 0;
)";
  for (int i = 0; i < 7; ++i) {
    fmt::format_to(std::back_inserter(text), "scale += reduce{}(sum, partial, t);\n", i);
  }
  text += R"(
scale = metal::rsqrt(scale / N + eps);
for (uint c = t; c < N; c += threads_per_threadgroup.x) {
  float v = float(x[row * N + c]) * scale;
  switch (c % 4) {
    case 0: v = metal::exp(v - most); break;
    case 1: v = v > 0 ? metal::log(v + 1) : metal::tanh(v); break;
    case 2: v = metal::sin(v) * metal::cos(most); break;
    default: v = v / (1 + metal::exp(-v)); break;
  }
  y[row * N + c] = half(v * float(w[c]));
}
)";
  return body;
}

CompileJob job_of_timed(const TimedBody& body, const VulkanTarget& target) {
  CompileJob job;
  job.kernel = body.definition.name;
  job.code = target.generate(body.definition, body.signature, {}).or_raise();
  return job;
}

// Of any device that has what the bodies need; the first that is there, for its own compiler.
Ref<hal::VulkanDevice> timed_device(benchmark::State& state) {
  static const Result<Ref<hal::VulkanDevice>> device = hal::VulkanDevice::open({.queues = 1});
  if (!device) {
    state.SkipWithError(("skipped: " + device.failure().message()).c_str());
    return nullptr;
  }
  if (const auto clang = Clang::find(); !clang) {
    state.SkipWithError(("skipped: " + clang.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(device.value()->info().description);
  return device.value();
}

// From the author's text to a pipeline of the driver. What a driver leaves to the first dispatch,
// as lavapipe does, is not in it.
void compile_body(benchmark::State& state, const TimedBody& body) {
  const auto device = timed_device(state);
  if (!device) return;
  VulkanTarget target(device->info());
  // The size of groups is the driver's to know.
  std::vector<std::byte> parameters(4096);
  const LaunchBlock block{{1024, 1, 1}, {256, 1, 1}, {}, 1, {256, 1, 1}};
  std::memcpy(parameters.data(), &block, sizeof block);
  for (auto _ : state) {
    const CompileJob job = job_of_timed(body, target);
    const Code code = target.compile(job).or_raise();
    const auto pipeline = target.load(*device, job, code).or_raise();
    benchmark::DoNotOptimize(
        static_cast<const hal::VulkanPipeline&>(*pipeline).handle_for(parameters).or_raise());
  }
}

LlvmUnit unit_of_timed(const CompileJob& job) {
  return {.text = job.code.preamble + job.code.text,
          .math = job.code.math,
          .contracts = job.code.contracts};
}

// clang alone, on the text that compile_body() has for it.
void clang_alone(benchmark::State& state, const TimedBody& body) {
  const auto device = timed_device(state);
  if (!device) return;
  const LlvmUnit unit = unit_of_timed(job_of_timed(body, VulkanTarget(device->info())));
  const auto clang = Clang::find().or_raise();
  for (auto _ : state) {
    const LlvmOutcome outcome = clang->to_llvm(unit).or_raise();
    if (outcome.text.empty()) return state.SkipWithError(outcome.messages.c_str());
  }
}

// The translator alone, on what clang makes of it.
void translate_body(benchmark::State& state, const TimedBody& body) {
  const auto device = timed_device(state);
  if (!device) return;
  const CompileJob job = job_of_timed(body, VulkanTarget(device->info()));
  const LlvmOutcome outcome = Clang::find().or_raise()->to_llvm(unit_of_timed(job)).or_raise();
  const Interface& interface = job.code.interface;
  const TranslateOptions options{.entry_point = job.code.entry_point,
                                 .bindings = static_cast<uint32_t>(interface.bindings.size()),
                                 .parameter_bytes = interface.parameter_bytes,
                                 .keeps_32 = true};
  for (auto _ : state) {
    const Translated translated = translate_to_spirv(outcome.text, options);
    if (translated.words.empty()) {
      return state.SkipWithError(translated.refusal.message.c_str());
    }
  }
}

const bool kCompileRows = [] {
  for (const auto& [size, body] :
       {std::pair{"small", small_body()}, std::pair{"large", large_body()}}) {
    const std::string compile = fmt::format("vulkan_compile_{}", size);
    benchmark::RegisterBenchmark((compile + "/ours").c_str(), [body = body](benchmark::State& s) {
      compile_body(s, body);
    })->UseRealTime();
    benchmark::RegisterBenchmark((compile + "/reference").c_str(), [body =
                                                                        body](benchmark::State& s) {
      clang_alone(s, body);
    })->UseRealTime();
    benchmark::RegisterBenchmark(fmt::format("vulkan_translate_{}/ours", size).c_str(),
                                 [body = body](benchmark::State& s) { translate_body(s, body); });
  }
  return true;
}();

}  // namespace
}  // namespace holdfast::kernel
