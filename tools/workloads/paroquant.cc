#include "workloads/paroquant.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace holdfast::workloads {
namespace {

using kernel::ArrayRef;
using kernel::Dtype;

constexpr uint32_t kGroup = 128;  // channels
constexpr uint32_t kOutputsPerThreadgroup = 4;

const char* const kRotate = R"(
threadgroup float tile[128 * R];
uint t = thread_position_in_threadgroup.x;
uint group = threadgroup_position_in_grid.y;
uint first_row = threadgroup_position_in_grid.x * R;

for (uint c = t; c < 128; c += 64) {
  uint channel = group * 128 + c;
  float s = scale[channel];
  for (uint r = 0; r < R; ++r) {
    uint row = first_row + r;
    tile[c * R + r] = row < rows ? float(x[row * D + channel]) * s : 0.0f;
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);

// The pairs of one rotation are disjoint, so each thread has two channels to itself.
for (uint k = 0; k < K; ++k) {
  uint at = k * (D / 2) + group * 64 + t;
  uint pair = uint(pairs[at]);
  uint i = pair & 0xffffu;
  uint j = pair >> 16;
  float c = cosine[at];
  float s = sine[at];
  for (uint r = 0; r < R; ++r) {
    float a = tile[i * R + r];
    float b = tile[j * R + r];
    tile[i * R + r] = a * c + b * s;
    tile[j * R + r] = b * c - a * s;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

for (uint c = t; c < 128; c += 64) {
  for (uint r = 0; r < R; ++r) {
    uint row = first_row + r;
    if (row < rows) y[row * D + group * 128 + c] = T(tile[c * R + r]);
  }
}
)";

// Each simdgroup computes one output of one row.
const char* const kProduct = R"(
uint lane = thread_index_in_simdgroup;
uint o = threadgroup_position_in_grid.x * 4 + simdgroup_index_in_threadgroup;
uint row = threadgroup_position_in_grid.y;
float acc = 0.0f;
for (uint word = lane; word < D / 8; word += 32) {
  uint q = packed[o * (D / 8) + word];
  uint group = word / 16;
  float s = scales[o * (D / 128) + group];
  float b = biases[o * (D / 128) + group];
  for (uint e = 0; e < 8; ++e) {
    float v = float(x[row * D + word * 8 + e]);
    acc += v * (s * float((q >> (4 * e)) & 15u) + b);
  }
}
acc = simd_sum(acc);
if (lane == 0) y[row * OUT + o] = acc;
)";

Kernel rotate_kernel() {
  return Kernel({.name = "paro_rotate",
                 .inputs = {"x", "pairs", "cosine", "sine", "scale"},
                 .outputs = {"y"},
                 .source = kRotate});
}

Kernel product_kernel() {
  return Kernel({.name = "paro_product",
                 .inputs = {"x", "packed", "scales", "biases"},
                 .outputs = {"y"},
                 .source = kProduct});
}

// Disjoint pairs of a group, from random values.
std::vector<uint32_t> random_pairs(uint64_t seed) {
  std::vector<uint32_t> order(kGroup);
  std::iota(order.begin(), order.end(), 0U);
  const std::vector<float> random = random_values(seed, kGroup);
  for (uint32_t i = kGroup; i-- > 1;) {
    const auto j = static_cast<uint32_t>((random[i] + 1) / 2 * static_cast<float>(i));
    std::swap(order[i], order[j]);
  }
  std::vector<uint32_t> pairs;
  for (uint32_t t = 0; t < kGroup / 2; ++t) {
    pairs.push_back(order[2 * t] | order[2 * t + 1] << 16);
  }
  return pairs;
}

}  // namespace

ParoQuantLayer::ParoQuantLayer(runtime::Stream& stream, const ParoQuant& options)
    : options_(options), rotate_(rotate_kernel()), product_(product_kernel()) {
  const uint32_t d = options.channels;
  if (d % kGroup != 0 || options.outputs % kOutputsPerThreadgroup != 0 || options.rows == 0) {
    throw UsageError("channels come in groups of 128, outputs in fours, and there is a row");
  }
  const uint64_t seed = options.seed * 1000;
  for (uint32_t k = 0; k < options.rotations; ++k) {
    for (uint32_t g = 0; g < d / kGroup; ++g) {
      const std::vector<uint32_t> pairs = random_pairs(seed + 100 + uint64_t{k} * 977 + g);
      pairs_.insert(pairs_.end(), pairs.begin(), pairs.end());
    }
  }
  for (const float angle : random_values(seed + 1, size_t{options.rotations} * d / 2)) {
    cos_.push_back(std::cos(3 * angle));
    sin_.push_back(std::sin(3 * angle));
  }
  scale_ = random_values(seed + 2, d);
  for (float& v : scale_) v = 1.0F + 0.5F * v;
  for (const float v : random_values(seed + 3, size_t{options.outputs} * d / 8)) {
    // Every bit pattern counts: eight weights to a word.
    packed_.push_back(static_cast<uint32_t>(static_cast<int64_t>(static_cast<double>(v) * 0x1p31)) *
                      2654435761U);
  }
  scales_ = random_values(seed + 4, size_t{options.outputs} * d / kGroup);
  for (float& v : scales_) v = 0.01F * (1.5F + v);
  biases_ = random_values(seed + 5, size_t{options.outputs} * d / kGroup);
  for (float& v : biases_) v = -0.075F + 0.02F * v;

  const auto half = static_cast<int64_t>(d / 2);
  const auto rotations = static_cast<int64_t>(options.rotations);
  const auto outputs = static_cast<int64_t>(options.outputs);
  const auto groups = static_cast<int64_t>(d / kGroup);
  on_device_.pairs = upload_words(stream, Dtype::int32, {rotations, half}, pairs_, "pairs");
  on_device_.cosine = upload(stream, Dtype::float32, {rotations, half}, cos_, "cosine");
  on_device_.sine = upload(stream, Dtype::float32, {rotations, half}, sin_, "sine");
  on_device_.scale = upload(stream, Dtype::float32, {d}, scale_, "scale");
  on_device_.packed = upload_words(stream, Dtype::uint32, {outputs, d / 8}, packed_, "packed");
  on_device_.scales = upload(stream, Dtype::float32, {outputs, groups}, scales_, "scales");
  on_device_.biases = upload(stream, Dtype::float32, {outputs, groups}, biases_, "biases");
}

std::vector<float> ParoQuantLayer::input(Dtype dtype) const {
  return rounded(
      dtype, random_values(options_.seed * 1000 + 9, size_t{options_.rows} * options_.channels));
}

ParoQuantLayer::Outputs ParoQuantLayer::record(runtime::Stream& stream,
                                               kernel::KernelRuntime& kernels, Dtype dtype) const {
  return record(
      stream, kernels,
      upload(stream, dtype,
             {static_cast<int64_t>(options_.rows), static_cast<int64_t>(options_.channels)},
             input(dtype), "x"));
}

ParoQuantLayer::Outputs ParoQuantLayer::record(runtime::Stream& stream,
                                               kernel::KernelRuntime& kernels,
                                               const Tensor& x) const {
  const Dtype dtype = x.dtype;
  const auto rows = static_cast<int64_t>(options_.rows);
  const auto d = static_cast<int64_t>(options_.channels);
  const uint32_t tile_rows = options_.rows <= 1 ? 1 : 4;
  Outputs result{
      make_tensor(stream, dtype, {rows, d}, "rotated"),
      make_tensor(stream, Dtype::float32, {rows, static_cast<int64_t>(options_.outputs)}, "y")};

  const std::array<ArrayRef, 5> rotate_inputs{x.ref(), on_device_.pairs.ref(),
                                              on_device_.cosine.ref(), on_device_.sine.ref(),
                                              on_device_.scale.ref()};
  const std::array<ArrayRef, 1> rotated{result.rotated.ref()};
  const std::array<kernel::Constant, 4> rotate_constants{
      {{"T", dtype}, {"R", int64_t{tile_rows}}, {"D", d}, {"K", int64_t{options_.rotations}}}};
  const std::array<kernel::Param, 1> rotate_params{{{"rows", options_.rows}}};
  kernels.launch(
      stream, rotate_,
      {.inputs = rotate_inputs,
       .outputs = rotated,
       .grid = {(options_.rows + tile_rows - 1) / tile_rows * 64, options_.channels / kGroup, 1},
       .threadgroup = {64, 1, 1},
       .constants = rotate_constants,
       .params = rotate_params});

  const std::array<ArrayRef, 4> product_inputs{result.rotated.ref(), on_device_.packed.ref(),
                                               on_device_.scales.ref(), on_device_.biases.ref()};
  const std::array<ArrayRef, 1> product{result.product.ref()};
  const std::array<kernel::Constant, 2> product_constants{
      {{"D", d}, {"OUT", int64_t{options_.outputs}}}};
  kernels.launch(stream, product_,
                 {.inputs = product_inputs,
                  .outputs = product,
                  .grid = {options_.outputs / kOutputsPerThreadgroup * 128, options_.rows, 1},
                  .threadgroup = {128, 1, 1},
                  .constants = product_constants});
  return result;
}

std::vector<double> ParoQuantLayer::rotated_reference(Dtype dtype) const {
  const uint32_t d = options_.channels;
  const std::vector<float> x = input(dtype);
  std::vector<double> v(x.begin(), x.end());
  for (uint32_t row = 0; row < options_.rows; ++row) {
    double* const values = v.data() + size_t{row} * d;
    for (uint32_t c = 0; c < d; ++c) values[c] *= double{scale_[c]};
    for (uint32_t k = 0; k < options_.rotations; ++k) {
      for (uint32_t p = 0; p < d / 2; ++p) {
        const size_t at = size_t{k} * d / 2 + p;
        double* const group = values + size_t{p / (kGroup / 2)} * kGroup;
        double& a = group[pairs_[at] & 0xffffU];
        double& b = group[pairs_[at] >> 16];
        const double c = cos_[at];
        const double s = sin_[at];
        const double rotated = a * c + b * s;
        b = b * c - a * s;
        a = rotated;
      }
    }
  }
  return v;
}

double ParoQuantLayer::weight(uint32_t output, uint32_t channel) const {
  const uint32_t d = options_.channels;
  const uint32_t word = packed_[size_t{output} * d / 8 + channel / 8];
  const size_t group = size_t{output} * d / kGroup + channel / kGroup;
  return double{scales_[group]} * ((word >> (4 * (channel % 8))) & 15U) + double{biases_[group]};
}

std::vector<double> ParoQuantLayer::product_reference(Dtype dtype) const {
  const uint32_t d = options_.channels;
  const std::vector<double> v = rotated_reference(dtype);
  std::vector<double> y(size_t{options_.rows} * options_.outputs);
  for (uint32_t row = 0; row < options_.rows; ++row) {
    for (uint32_t o = 0; o < options_.outputs; ++o) {
      double& sum = y[size_t{row} * options_.outputs + o];
      for (uint32_t c = 0; c < d; ++c) sum += v[size_t{row} * d + c] * weight(o, c);
    }
  }
  return y;
}

double ParoQuantLayer::tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 0x1p-10;
    case Dtype::bfloat16: return 0x1p-7;
    default: return 1e-5;
  }
}

}  // namespace holdfast::workloads
