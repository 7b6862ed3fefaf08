// What bodies take on a Vulkan device against the same kernels by hand in GLSL, by addresses as
// well. On lavapipe the time is that of all processors, so that others' load counts little; on a
// GPU it is the clock's, until the device is done.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/cpu_clock.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/runtime/context.h"

namespace holdfast::kernel {
namespace {

// --- The kernels ---------------------------------------------------------------------------------

// One kernel, as a body and as GLSL. Every buffer holds floats.
struct TimedKernel {
  const char* name;
  const char* body;
  const char* glsl;  // after kGlslBegin and its block of push constants
  bool takes_a = false;
  MathMode math = MathMode::safe;
  // The largest share of a value by which the two may differ: functions such as exp() are the
  // device's own in GLSL.
  float tolerance = 0;
};

constexpr const char* kGlslBegin = R"(#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer F { float at[]; };
)";

constexpr const char* kAxpyBody = R"(
uint i = thread_position_in_grid.x;
z[i] = a * x[i] + y[i];
)";
constexpr const char* kAxpyGlsl = R"(layout(local_size_x = 256) in;
layout(push_constant) uniform Block { F x; F y; F z; float a; uint n; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) z.at[i] = a * x.at[i] + y.at[i];
}
)";

constexpr const char* kLayerNormBody = R"(
threadgroup float part[256];
uint t = thread_index_in_threadgroup;
uint row = threadgroup_position_in_grid.x;
const device float* xr = x + row * N;
float sum = 0;
for (uint i = t; i < N; i += 256) sum += xr[i];
part[t] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 128; s > 0; s >>= 1) {
  if (t < s) part[t] += part[t + s];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
float mean = part[0] / N;
threadgroup_barrier(mem_flags::mem_threadgroup);
float squares = 0;
for (uint i = t; i < N; i += 256) {
  float d = xr[i] - mean;
  squares += d * d;
}
part[t] = squares;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 128; s > 0; s >>= 1) {
  if (t < s) part[t] += part[t + s];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
float scale = metal::rsqrt(part[0] / N + a);
for (uint i = t; i < N; i += 256) z[row * N + i] = (xr[i] - mean) * scale * y[i] + y[N + i];
)";
constexpr const char* kLayerNormGlsl = R"(layout(local_size_x = 256) in;
layout(push_constant) uniform Block { F x; F y; F z; float a; uint n; };
shared float part[256];
void main() {
  const uint t = gl_LocalInvocationID.x;
  const uint row = gl_WorkGroupID.x;
  float sum = 0.0;
  for (uint i = t; i < N; i += 256) sum += x.at[row * N + i];
  part[t] = sum;
  barrier();
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier();
  }
  const float mean = part[0] / float(N);
  barrier();
  float squares = 0.0;
  for (uint i = t; i < N; i += 256) {
    const float d = x.at[row * N + i] - mean;
    squares += d * d;
  }
  part[t] = squares;
  barrier();
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier();
  }
  const float scale = inversesqrt(part[0] / float(N) + a);
  for (uint i = t; i < N; i += 256) {
    z.at[row * N + i] = (x.at[row * N + i] - mean) * scale * y.at[i] + y.at[N + i];
  }
}
)";

constexpr const char* kSoftmaxBody = R"(
threadgroup float part[256];
uint t = thread_index_in_threadgroup;
uint row = threadgroup_position_in_grid.x;
const device float* xr = x + row * N;
float most = -INFINITY;
for (uint i = t; i < N; i += 256) most = metal::max(most, xr[i]);
part[t] = most;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 128; s > 0; s >>= 1) {
  if (t < s) part[t] = metal::max(part[t], part[t + s]);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
most = part[0];
threadgroup_barrier(mem_flags::mem_threadgroup);
float sum = 0;
for (uint i = t; i < N; i += 256) sum += metal::exp(xr[i] - most);
part[t] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint s = 128; s > 0; s >>= 1) {
  if (t < s) part[t] += part[t + s];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
float scale = 1 / part[0];
for (uint i = t; i < N; i += 256) z[row * N + i] = metal::exp(xr[i] - most) * scale;
)";
constexpr const char* kSoftmaxGlsl = R"(layout(local_size_x = 256) in;
layout(push_constant) uniform Block { F x; F y; F z; float a; uint n; };
shared float part[256];
void main() {
  const uint t = gl_LocalInvocationID.x;
  const uint row = gl_WorkGroupID.x;
  float most = -1.0 / 0.0;
  for (uint i = t; i < N; i += 256) most = max(most, x.at[row * N + i]);
  part[t] = most;
  barrier();
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = max(part[t], part[t + s]);
    barrier();
  }
  most = part[0];
  barrier();
  float sum = 0.0;
  for (uint i = t; i < N; i += 256) sum += exp(x.at[row * N + i] - most);
  part[t] = sum;
  barrier();
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier();
  }
  const float scale = 1.0 / part[0];
  for (uint i = t; i < N; i += 256) z.at[row * N + i] = exp(x.at[row * N + i] - most) * scale;
}
)";

constexpr const char* kMatmulBody = R"(
threadgroup float xt[16][16];
threadgroup float yt[16][16];
uint2 t = thread_position_in_threadgroup.xy;
uint2 at = thread_position_in_grid.xy;
float sum = 0;
for (uint k = 0; k < N; k += 16) {
  xt[t.y][t.x] = x[at.y * N + k + t.x];
  yt[t.y][t.x] = y[(k + t.y) * N + at.x];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = 0; j < 16; ++j) sum += xt[t.y][j] * yt[j][t.x];
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
z[at.y * N + at.x] = sum;
)";
constexpr const char* kMatmulGlsl = R"(layout(local_size_x = 16, local_size_y = 16) in;
layout(push_constant) uniform Block { F x; F y; F z; float a; uint n; };
shared float xt[16][16];
shared float yt[16][16];
void main() {
  const uvec2 t = gl_LocalInvocationID.xy;
  const uvec2 at = gl_GlobalInvocationID.xy;
  float sum = 0.0;
  for (uint k = 0; k < N; k += 16) {
    xt[t.y][t.x] = x.at[at.y * N + k + t.x];
    yt[t.y][t.x] = y.at[(k + t.y) * N + at.x];
    barrier();
    for (uint j = 0; j < 16; ++j) sum += xt[t.y][j] * yt[j][t.x];
    barrier();
  }
  z.at[at.y * N + at.x] = sum;
}
)";

// --- Running them --------------------------------------------------------------------------------

// What a launch works on. Inputs are multiples of 1/64 below 1, whose sums of products are exact in
// any order.
struct TimedShape {
  int64_t x;
  int64_t y;
  int64_t z;
  Size3 grid;
  Size3 group;
  int64_t n;  // the constant N
};

struct VulkanBench {
  Ref<runtime::Context> context;
  Ref<runtime::Stream> stream;
  std::unique_ptr<KernelRuntime> kernels;
  bool software = false;
};

// One for all rows: opening a GPU takes long. Null, with the reason said, where there is none.
VulkanBench* open_vulkan_bench(benchmark::State& state) {
  static Result<VulkanBench> bench = []() -> Result<VulkanBench> {
    auto device = hal::VulkanDevice::open({.queues = 1});
    if (!device) return device.failure();
    if (const auto clang = Clang::find(); !clang) return clang.failure();
    VulkanBench made;
    made.software = device.value()->info().description.find("software") != std::string::npos;
    made.context = runtime::Context::create(std::move(device).value());
    made.stream = made.context->new_stream();
    made.kernels = std::make_unique<KernelRuntime>(made.context, Options{.disk = nullptr});
    return made;
  }();
  if (!bench) {
    state.SkipWithError(("skipped: " + bench.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(bench.value().context->device()->info().description);
  return &bench.value();
}

// A processor gets what it does in milliseconds, a GPU what takes longer than launching it.
TimedShape shape_of(const std::string& name, bool software) {
  const int64_t width = 4096;
  if (name == "axpy") {
    const int64_t n = software ? int64_t{1} << 20 : int64_t{1} << 26;
    return {n, n, n, {static_cast<uint32_t>(n), 1, 1}, {256, 1, 1}, 1};
  }
  if (name == "matmul") {
    const int64_t n = software ? 256 : 2048;
    const auto side = static_cast<uint32_t>(n);
    return {n * n, n * n, n * n, {side, side, 1}, {16, 16, 1}, n};
  }
  const int64_t rows = software ? 64 : 16384;
  return {rows * width, 2 * width, rows * width, {static_cast<uint32_t>(rows) * 256, 1, 1},
          {256, 1, 1},  width};
}

enum class Side { body, glsl };

class TimedLaunch {
 public:
  TimedLaunch(VulkanBench& bench, const TimedKernel& kernel, Side side)
      : bench_(bench), shape_(shape_of(kernel.name, bench.software)), kernel_(made(kernel, side)) {
    // The block of GLSL has both; a body takes what it names.
    if (side == Side::glsl || kernel.takes_a) params_.push_back({"a", 0.5F});
    if (side == Side::glsl) params_.push_back({"n", static_cast<uint32_t>(shape_.x)});
    const auto upload = [&](int64_t count, uint64_t seed) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        value = static_cast<float>(seed >> 58) / 64.0F;
      }
      auto memory = bench_.stream->allocate(Bytes{values.size() * sizeof(float)});
      bench_.stream->upload(memory, {}, std::as_bytes(std::span(values)));
      return memory;
    };
    x_ = upload(shape_.x, 1);
    y_ = upload(shape_.y, 2);
    z_ = bench_.stream->allocate(Bytes{static_cast<uint64_t>(shape_.z) * sizeof(float)});
  }
  void launch() {
    const std::array inputs{ArrayRef(x_, Dtype::float32, std::span(&shape_.x, 1)),
                            ArrayRef(y_, Dtype::float32, std::span(&shape_.y, 1))};
    const std::array outputs{ArrayRef(z_, Dtype::float32, std::span(&shape_.z, 1))};
    bench_.kernels->launch(*bench_.stream, kernel_,
                           {.inputs = inputs,
                            .outputs = outputs,
                            .grid = shape_.grid,
                            .threadgroup = shape_.group,
                            .constants = constants_,
                            .params = params_});
  }
  std::vector<float> result() {
    std::vector<float> values(static_cast<size_t>(shape_.z));
    bench_.stream->readback(z_, {}, std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  static Kernel made(const TimedKernel& kernel, Side side) {
    Definition definition{.name = kernel.name, .inputs = {"x", "y"}, .outputs = {"z"}};
    definition.math = kernel.math;
    if (side == Side::body) {
      definition.source = kernel.body;
    } else {
      definition.natives = {{.kind = NativeKind::glsl,
                             .text = std::string(kGlslBegin) + kernel.glsl,
                             .reaches = hal::SpirvBindings::addresses}};
    }
    return Kernel(definition);
  }

  VulkanBench& bench_;
  TimedShape shape_;
  Kernel kernel_;
  Ref<hal::Allocation> x_, y_, z_;
  std::vector<Constant> constants_{{"N", shape_.n}};
  std::vector<Param> params_;
};

// How the two results differ; empty: they are the same as far as the kernel allows.
std::string difference_of(const TimedKernel& kernel, TimedLaunch& body, TimedLaunch& glsl) {
  body.launch();
  glsl.launch();
  const std::vector<float> ours = body.result();
  const std::vector<float> theirs = glsl.result();
  for (size_t i = 0; i < ours.size(); ++i) {
    const float most = kernel.tolerance * std::max(std::abs(ours[i]), std::abs(theirs[i]));
    if (std::abs(ours[i] - theirs[i]) <= most) continue;
    return fmt::format("element {} is {} from the body and {} from GLSL", i, ours[i], theirs[i]);
  }
  if (std::ranges::all_of(ours, [](float value) { return value == 0; })) return "nothing but zeros";
  return {};
}

void timed_kernel(benchmark::State& state, const TimedKernel& kernel, Side side) {
  VulkanBench* const bench = open_vulkan_bench(state);
  if (bench == nullptr) return;
  TimedLaunch body(*bench, kernel, Side::body);
  TimedLaunch glsl(*bench, kernel, Side::glsl);
  if (const std::string wrong = difference_of(kernel, body, glsl); !wrong.empty()) {
    return state.SkipWithError(wrong.c_str());
  }
  TimedLaunch& timed = side == Side::body ? body : glsl;
  constexpr int batch = 4;  // so that waking and waiting at its ends does not count
  for (auto _ : state) {
    const auto start = sync::now();
    const auto used = sync::process_cpu_time();
    for (int i = 0; i < batch; ++i) timed.launch();
    bench->stream->synchronize();
    const sync::Duration took =
        bench->software ? sync::process_cpu_time() - used : sync::Duration(sync::now() - start);
    state.SetIterationTime(std::chrono::duration<double>(took).count());
  }
  state.counters["per"] = batch;
}

const bool kBodyRows = [] {
  const std::vector<TimedKernel> kernels{
      {.name = "axpy", .body = kAxpyBody, .glsl = kAxpyGlsl, .takes_a = true},
      {.name = "layer_norm",
       .body = kLayerNormBody,
       .glsl = kLayerNormGlsl,
       .takes_a = true,
       .tolerance = 1e-5F},
      {.name = "softmax", .body = kSoftmaxBody, .glsl = kSoftmaxGlsl, .tolerance = 1e-4F},
      {.name = "softmax_fast",
       .body = kSoftmaxBody,
       .glsl = kSoftmaxGlsl,
       .math = MathMode::fast,
       .tolerance = 1e-4F},
      {.name = "matmul", .body = kMatmulBody, .glsl = kMatmulGlsl}};
  for (const TimedKernel& kernel : kernels) {
    for (const Side side : {Side::body, Side::glsl}) {
      benchmark::RegisterBenchmark(
          fmt::format("vulkan_kernel_{}/{}", kernel.name, side == Side::body ? "ours" : "reference")
              .c_str(),
          [=](benchmark::State& s) { timed_kernel(s, kernel, side); })
          ->UseManualTime();
    }
  }
  return true;
}();

}  // namespace
}  // namespace holdfast::kernel
