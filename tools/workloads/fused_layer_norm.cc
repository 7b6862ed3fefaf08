#include "workloads/fused_layer_norm.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace holdfast::workloads {
namespace {

using kernel::ArrayRef;
using kernel::Dtype;

constexpr uint32_t kThreads = 256;

// Outputs of a threadgroup: four for each of its eight simdgroups or, where threads are many, one.
uint32_t rows_on(const hal::DeviceInfo& device) {
  return device.thread_style == hal::ThreadStyle::many_weak ? 8 : 32;
}

// The sum of v over all threads of the group, for each of them.
const char* const kHeader = R"(
float group_sum(float v, threadgroup float* partial, uint lane, uint simdgroup) {
  v = simd_sum(v);
  if (lane == 0) partial[simdgroup] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0.0f;
  for (uint i = 0; i < SIMDGROUPS; ++i) total += partial[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return total;
}
)";

const char* const kBody = R"(
threadgroup float partial[SIMDGROUPS];
uint t = thread_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;

float sum = 0.0f;
for (uint i = t; i < N; i += 32 * SIMDGROUPS) sum += float(x[i]);
float mean = group_sum(sum, partial, lane, simdgroup) / float(N);

float squares = 0.0f;
for (uint i = t; i < N; i += 32 * SIMDGROUPS) {
  float d = float(x[i]) - mean;
  squares += d * d;
}
float inverse = metal::rsqrt(group_sum(squares, partial, lane, simdgroup) / float(N) + eps);

// A simdgroup computes one output at a time.
for (uint r = simdgroup; r < ROWS; r += SIMDGROUPS) {
  uint o = threadgroup_position_in_grid.x * ROWS + r;
  float acc = 0.0f;
  for (uint j = lane; j < N; j += 32) {
    float h = (float(x[j]) - mean) * inverse * float(gamma[j]) + float(beta[j]);
    acc += float(w[o * N + j]) * h;
  }
  acc = simd_sum(acc);
  if (lane == 0) y[o] = T(acc + float(bias[o]));
}
)";

// One pass for both moments, and the affine part of the norm taken out of the product.
const char* const kOtherBody = R"(
threadgroup float partial[SIMDGROUPS];
uint t = thread_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;

float first = float(x[0]);
float sum = 0.0f;
float squares = 0.0f;
for (uint i = t; i < N; i += 32 * SIMDGROUPS) {
  float d = float(x[i]) - first;
  sum += d;
  squares += d * d;
}
sum = group_sum(sum, partial, lane, simdgroup) / float(N);
squares = group_sum(squares, partial, lane, simdgroup) / float(N);
float inverse = 1.0f / metal::sqrt(squares - sum * sum + eps);
float mean = first + sum;

for (uint r = simdgroup; r < ROWS; r += SIMDGROUPS) {
  uint o = threadgroup_position_in_grid.x * ROWS + r;
  float scaled = 0.0f;
  float shift = 0.0f;
  for (uint j = lane; j < N; j += 32) {
    float weight = float(w[o * N + j]);
    scaled += weight * float(gamma[j]) * (float(x[j]) - mean);
    shift += weight * float(beta[j]);
  }
  scaled = simd_sum(scaled);
  shift = simd_sum(shift);
  if (lane == 0) y[o] = T(scaled * inverse + shift + float(bias[o]));
}
)";

double epsilon_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 0x1p-11;
    case Dtype::bfloat16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

}  // namespace

Kernel fused_layer_norm_kernel(uint32_t width, bool second) {
  return Kernel({.name = fmt::format("fused_ln_gemv_{}_{}", width, width),
                 .inputs = {"x", "w", "gamma", "beta", "bias"},
                 .outputs = {"y"},
                 .source = second ? kOtherBody : kBody,
                 .header = kHeader});
}

FusedLayerNormRun::FusedLayerNormRun(runtime::Stream& stream, const FusedLayerNorm& options)
    : options_(options),
      first_(fused_layer_norm_kernel(options.width)),
      second_(fused_layer_norm_kernel(options.width, options.two_sources)) {
  const uint32_t n = options.width;
  if (options_.rows == 0) options_.rows = rows_on(stream.context()->device()->info());
  if (n % 32 != 0 || n % options_.rows != 0) {
    throw UsageError("the width must be a multiple of 32, and of the rows of a threadgroup");
  }
  const auto side = static_cast<int64_t>(n);
  const Dtype dtype = options.dtype;
  x_ = rounded(dtype, random_values(1, n));
  input_ = upload(stream, dtype, {side}, x_, "x");
  const size_t square = size_t{n} * n;
  Tensor all_weights;
  if (options.sliced_weights) {
    all_weights = make_tensor(stream, dtype, {options.layers, side, side}, "all weights");
  }
  for (uint32_t l = 0; l < options.layers; ++l) {
    LayerWeights weights;
    weights.w = random_values(10 * l + 2, square);
    // Keeps outputs of the size of inputs.
    for (float& v : weights.w) v *= std::sqrt(3.0F / static_cast<float>(n));
    weights.w = rounded(dtype, weights.w);
    weights.gamma = random_values(10 * l + 3, n);
    for (float& v : weights.gamma) v = 1.0F + 0.2F * v;
    weights.gamma = rounded(dtype, weights.gamma);
    weights.beta = rounded(dtype, random_values(10 * l + 4, n));
    weights.bias = rounded(dtype, random_values(10 * l + 5, n));
    Layer layer;
    if (options.sliced_weights) {
      layer.w = all_weights;
      layer.w.shape = {side, side};
      layer.w.offset = size_of(dtype) * (square * l);
      write(stream, layer.w, weights.w);
    } else {
      layer.w = upload(stream, dtype, {side, side}, weights.w, fmt::format("w{}", l));
    }
    layer.gamma = upload(stream, dtype, {side}, weights.gamma, fmt::format("gamma{}", l));
    layer.beta = upload(stream, dtype, {side}, weights.beta, fmt::format("beta{}", l));
    layer.bias = upload(stream, dtype, {side}, weights.bias, fmt::format("bias{}", l));
    weights_.push_back(std::move(weights));
    layers_.push_back(std::move(layer));
  }
}

void FusedLayerNormRun::record(runtime::Stream& stream, kernel::KernelRuntime& kernels) {
  const std::array<kernel::Constant, 4> constants{{{"T", options_.dtype},
                                                   {"N", int64_t{options_.width}},
                                                   {"ROWS", int64_t{options_.rows}},
                                                   {"SIMDGROUPS", int64_t{kThreads / 32}}}};
  const std::array<kernel::Param, 1> params{{{"eps", 1e-5F}}};
  Tensor x = input_;
  for (uint32_t l = 0; l < options_.layers; ++l) {
    const Layer& layer = layers_[l];
    Tensor y = make_tensor(stream, options_.dtype, {static_cast<int64_t>(options_.width)},
                           fmt::format("out{}", l));
    const std::array<ArrayRef, 5> inputs{x.ref(), layer.w.ref(), layer.gamma.ref(),
                                         layer.beta.ref(), layer.bias.ref()};
    const std::array<ArrayRef, 1> outputs{y.ref()};
    kernels.launch(stream, l % 2 == 0 ? first_ : second_,
                   {.inputs = inputs,
                    .outputs = outputs,
                    .grid = {options_.width / options_.rows * kThreads, 1, 1},
                    .threadgroup = {kThreads, 1, 1},
                    .constants = constants,
                    .params = params,
                    .label = fmt::format("layer {}", l)});
    x = std::move(y);
  }
  last_ = std::move(x);
}

std::vector<double> FusedLayerNormRun::reference() const {
  const uint32_t n = options_.width;
  std::vector<double> x(x_.begin(), x_.end());
  for (const LayerWeights& layer : weights_) {
    double mean = 0;
    for (const double v : x) mean += v / n;
    double variance = 0;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    std::vector<double> h(n);
    for (uint32_t j = 0; j < n; ++j) {
      h[j] = (x[j] - mean) / std::sqrt(variance + 1e-5) * double{layer.gamma[j]} +
             double{layer.beta[j]};
    }
    std::vector<double> y(n);
    for (uint32_t o = 0; o < n; ++o) {
      y[o] = layer.bias[o];
      for (uint32_t j = 0; j < n; ++j) y[o] += double{layer.w[size_t{o} * n + j]} * h[j];
    }
    x = std::move(y);
  }
  return x;
}

double FusedLayerNormRun::tolerance() const {
  // Rounding errors of the layers add up like independent ones; the float sums have theirs.
  return 8 * epsilon_of(options_.dtype) * std::sqrt(static_cast<double>(options_.layers)) + 1e-5;
}

}  // namespace holdfast::workloads
