#include "holdfast/kernel/targets/cpu/cpp_compiler.h"

#include <benchmark/benchmark.h>

#include "holdfast/kernel/targets/cpu/cpu_text.h"
#include "holdfast/kernel/targets/cpu/shared_object.h"

namespace holdfast::kernel {
namespace {

CppUnit unit_of(const Definition& definition, const CallSignature& signature) {
  const GeneratedKernel code = cpu_text(definition, signature);
  return {code.preamble + code.text, code.math, true};
}

CppUnit small_unit() {
  return unit_of({.name = "scale",
                  .inputs = {"x"},
                  .outputs = {"y"},
                  .source = "uint i = thread_position_in_grid.x;\ny[i] = 2 * x[i];"},
                 {.inputs = {{}}, .outputs = {{}}});
}

// As users write them: half precision, threadgroup memory, barriers, simdgroup operations.
CppUnit typical_unit() {
  return unit_of({.name = "rms_norm", .inputs = {"x", "w"}, .outputs = {"y"}, .source = R"(
threadgroup float partial[8];
uint row = threadgroup_position_in_grid.x;
uint t = thread_index_in_threadgroup;
float sum = 0;
for (uint c = t; c < N; c += threads_per_threadgroup.x) {
  float v = float(x[row * N + c]);
  sum += v * v;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
float all = 0;
for (uint s = 0; s < simdgroups_per_threadgroup; ++s) all += partial[s];
float scale = metal::rsqrt(all / N + 1e-5f);
for (uint c = t; c < N; c += threads_per_threadgroup.x) {
  y[row * N + c] = half(float(x[row * N + c]) * scale * float(w[c]));
}
)"},
                 {.inputs = {{Dtype::float16}, {Dtype::float16}},
                  .outputs = {{Dtype::float16}},
                  .constants = {{"N", int64_t{768}}}});
}

void time_cpp(benchmark::State& state, const CppUnit& unit) {
  const auto compiler = CppCompiler::find().or_raise();
  for (auto _ : state) {
    const CppOutcome outcome = compiler->compile(unit, {}).or_raise();
    if (outcome.object.empty()) return state.SkipWithError(outcome.messages.c_str());
  }
}
BENCHMARK_CAPTURE(time_cpp, small, small_unit())->Name("cpp_compile_small/ours")->UseRealTime();
BENCHMARK_CAPTURE(time_cpp, typical, typical_unit())
    ->Name("cpp_compile_typical/ours")
    ->UseRealTime();

// Bytes to code that can be called, and out again.
void load(benchmark::State& state) {
  const CppOutcome outcome = CppCompiler::find().or_raise()->compile(small_unit(), {}).or_raise();
  for (auto _ : state) {
    benchmark::DoNotOptimize(SharedObject::load("scale", outcome.object).or_raise());
  }
}
BENCHMARK(load)->Name("cpp_object_load/ours");

}  // namespace
}  // namespace holdfast::kernel
