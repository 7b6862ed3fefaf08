// Twelve layers of a fused layer norm and matrix-vector product through one kernel name, each with
// weights of its own, evaluated as one graph. Kernels are told apart by what they are, never by
// their name, so no layer computes with another's weights.
//
//   h = (x - mean(x)) / sqrt(var(x) + 1e-5) * gamma + beta;  y_o = bias_o + sum_j W[o,j] h_j

#include <holdfast/holdfast.h>

#include "check.h"

namespace hf = holdfast;

namespace {

constexpr int64_t kWidth = 768;
constexpr int64_t kLayers = 12;
constexpr uint32_t kThreads = 256;
constexpr int64_t kRows = 32;  // outputs of a threadgroup

const char* const kHeader = R"(
// The sum of v over all threads of the group, for each of them.
float group_sum(float v, threadgroup float* partial, uint lane, uint simdgroup, uint simdgroups) {
  v = simd_sum(v);
  if (lane == 0) partial[simdgroup] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0.0f;
  for (uint i = 0; i < simdgroups; ++i) total += partial[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return total;
}
)";

const char* const kTwoPasses = R"(
threadgroup float partial[32];
uint t = thread_index_in_threadgroup;
uint lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
uint simdgroups = simdgroups_per_threadgroup;

float sum = 0.0f;
for (uint i = t; i < N; i += threads_per_threadgroup.x) sum += float(x[i]);
float mean = group_sum(sum, partial, lane, simdgroup, simdgroups) / float(N);
float squares = 0.0f;
for (uint i = t; i < N; i += threads_per_threadgroup.x) {
  float d = float(x[i]) - mean;
  squares += d * d;
}
float inverse = metal::rsqrt(group_sum(squares, partial, lane, simdgroup, simdgroups) / float(N) + eps);

for (uint r = simdgroup; r < ROWS; r += simdgroups) {
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

// The same function, written differently: both moments in one pass.
const char* const kOnePass = R"(
threadgroup float partial[32];
uint lane = thread_index_in_simdgroup;
uint simdgroup = simdgroup_index_in_threadgroup;
uint simdgroups = simdgroups_per_threadgroup;

float first = float(x[0]);
float sum = 0.0f;
float squares = 0.0f;
for (uint i = thread_index_in_threadgroup; i < N; i += threads_per_threadgroup.x) {
  float d = float(x[i]) - first;
  sum += d;
  squares += d * d;
}
sum = group_sum(sum, partial, lane, simdgroup, simdgroups) / float(N);
squares = group_sum(squares, partial, lane, simdgroup, simdgroups) / float(N);
float inverse = metal::rsqrt(squares - sum * sum + eps);

for (uint r = simdgroup; r < ROWS; r += simdgroups) {
  uint o = threadgroup_position_in_grid.x * ROWS + r;
  float acc = 0.0f;
  for (uint j = lane; j < N; j += 32) {
    acc += float(w[o * N + j]) *
           ((float(x[j]) - first - sum) * inverse * float(gamma[j]) + float(beta[j]));
  }
  acc = simd_sum(acc);
  if (lane == 0) y[o] = T(acc + float(bias[o]));
}
)";

hf::Kernel make_kernel(const char* source) {
  return hf::Kernel({.name = "fused_ln_gemv_768_768",
                     .inputs = {"x", "w", "gamma", "beta", "bias"},
                     .outputs = {"y"},
                     .source = source,
                     .header = kHeader});
}

struct Layer {
  hf::Array w, gamma, beta, bias;
};

hf::Array run_layer(const hf::Kernel& kernel, const hf::Array& x, const Layer& layer) {
  return kernel({x, layer.w, layer.gamma, layer.beta, layer.bias},
                {.grid = {uint32_t{kWidth / kRows} * kThreads, 1, 1},
                 .threadgroup = {kThreads, 1, 1},
                 .output_shapes = {{kWidth}},
                 .output_dtypes = {x.dtype()},
                 .constants = {{"T", x.dtype()}, {"N", kWidth}, {"ROWS", kRows}},
                 .params = {{"eps", 1e-5F}}})[0];
}

std::vector<float> as_floats(const hf::Array& a) {
  return hf::astype(a, hf::float32).to_vector<float>();
}

std::vector<double> reference(const hf::Array& x, const std::vector<Layer>& layers) {
  const std::vector<float> first = as_floats(x);
  std::vector<double> v(first.begin(), first.end());
  for (const Layer& layer : layers) {
    const std::vector<float> w = as_floats(layer.w);
    const std::vector<float> gamma = as_floats(layer.gamma);
    const std::vector<float> beta = as_floats(layer.beta);
    const std::vector<float> bias = as_floats(layer.bias);
    double mean = 0;
    double variance = 0;
    for (const double e : v) mean += e / kWidth;
    for (const double e : v) variance += (e - mean) * (e - mean) / kWidth;
    std::vector<double> y(kWidth);
    for (size_t o = 0; o < y.size(); ++o) {
      y[o] = bias[o];
      for (size_t j = 0; j < v.size(); ++j) {
        const double h =
            (v[j] - mean) / std::sqrt(variance + 1e-5) * double{gamma[j]} + double{beta[j]};
        y[o] += double{w[o * v.size() + j]} * h;
      }
    }
    v = std::move(y);
  }
  return v;
}

}  // namespace

int main() {
  hf::random_seed(1);
  const hf::Kernel two_passes = make_kernel(kTwoPasses);
  const hf::Kernel one_pass = make_kernel(kOnePass);

  const hf::Array x = hf::random_normal({kWidth}, hf::float16);
  // All weights in one buffer, of which each layer gets a slice; and each in memory of its own.
  const hf::Array all =
      hf::astype(hf::random_normal({kLayers, kWidth, kWidth}) * 0.036, hf::float16);
  std::vector<Layer> sliced;
  std::vector<Layer> own;
  for (int64_t l = 0; l < kLayers; ++l) {
    Layer layer{hf::index(all, l), 1.0 + 0.2 * hf::random_normal({kWidth}, hf::float16),
                hf::random_uniform({kWidth}, hf::float16),
                hf::random_uniform({kWidth}, hf::float16)};
    sliced.push_back(layer);
    layer.w = hf::copy(layer.w);
    own.push_back(layer);
  }

  const auto chain = [&](const std::vector<Layer>& layers, const hf::Kernel& odd) {
    hf::Array v = x;
    for (size_t l = 0; l < layers.size(); ++l)
      v = run_layer(l % 2 ? odd : two_passes, v, layers[l]);
    return v;
  };
  const hf::Array a = chain(own, two_passes);
  const hf::Array b = chain(sliced, two_passes);
  const hf::Array c = chain(own, one_pass);  // two sources under one name, in one graph
  hf::eval(a, b, c);

  // Each layer stores its result once, in float16, and the next one normalizes it.
  const double tolerance = kLayers * 0x1p-11;
  const std::vector<double> expected = reference(x, own);
  bool right = check("twelve layers, weights of their own", relative_error(as_floats(a), expected),
                     tolerance);
  right &=
      check("weights as slices of one buffer", relative_error(as_floats(b), expected), tolerance);
  right &= check("two sources under one name", relative_error(as_floats(c), expected), tolerance);
  return right ? 0 : 1;
}
