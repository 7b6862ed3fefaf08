#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <iterator>

namespace holdfast::kernel {
namespace {

const GlslSource& small_source() {
  static const GlslSource source{.name = "scale",
                                 .text = R"(layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Parameters { float factor; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < y.length()) y[i] = factor * x[i];
}
)",
                                 .defines = {}};
  return source;
}

// About a hundred lines: functions, shared memory, barriers and loops.
GlslSource large_source() {
  GlslSource source{.name = "norms",
                    .text = R"(layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer W { float w[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Parameters { uint columns; float epsilon; };
shared float partial[256];
)",
                    .defines = {}};
  const auto out = std::back_inserter(source.text);
  for (int i = 0; i < 7; ++i) {
    fmt::format_to(out, R"(
float reduce{0}(float value) {{
  const uint lane = gl_LocalInvocationID.x;
  partial[lane] = value;
  barrier();
  for (uint half_size = 128; half_size > 0; half_size /= 2) {{
    if (lane < half_size) partial[lane] += partial[lane + half_size] * {0}.5;
    barrier();
  }}
  return partial[0];
}}
)",
                   i);
  }
  source.text += R"(
void main() {
  const uint row = gl_WorkGroupID.x;
  float sum = 0;
  for (uint c = gl_LocalInvocationID.x; c < columns; c += gl_WorkGroupSize.x) {
    const float value = x[row * columns + c];
    sum += value * value;
  }
  float scale = 0;
)";
  for (int i = 0; i < 7; ++i) fmt::format_to(out, "  scale += reduce{}(sum);\n", i);
  source.text += R"(  scale = inversesqrt(scale / float(columns) + epsilon);
  for (uint c = gl_LocalInvocationID.x; c < columns; c += gl_WorkGroupSize.x) {
    y[row * columns + c] = x[row * columns + c] * scale * w[c];
  }
}
)";
  return source;
}

void time_glsl(benchmark::State& state, const GlslSource& source) {
  for (auto _ : state) {
    Result<hal::SpirvModule> module = compile_glsl(source);
    if (!module) return state.SkipWithError(module.failure().message().c_str());
    benchmark::DoNotOptimize(module);
  }
}
BENCHMARK_CAPTURE(time_glsl, small, small_source())->Name("glsl_compile_small/ours");
BENCHMARK_CAPTURE(time_glsl, large, large_source())->Name("glsl_compile_large/ours");

// The text's own macros cost a second pass.
GlslSource with_macro() {
  GlslSource source = small_source();
  source.text = "#define UNUSED(x) x\n" + source.text;
  return source;
}
BENCHMARK_CAPTURE(time_glsl, macro, with_macro())->Name("glsl_compile_small_with_macro/ours");

}  // namespace
}  // namespace holdfast::kernel
