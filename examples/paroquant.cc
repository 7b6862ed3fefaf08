// Pairwise rotations of groups of 128 channels, then a product with 4-bit weights; the same kernel
// called with several dtypes in one graph, with room for one compiled variant only. A variant that
// is evicted stays alive for the lists that need it.
//
//   v = x * scale; for each k, over disjoint pairs: v_i' = v_i c + v_j s, v_j' = v_j c - v_i s
//   y[r,o] = sum_ch v[r,ch] * (S[o,ch/128] * q[o,ch] + B[o,ch/128])

#include <holdfast/holdfast.h>

#include <numeric>

#include "check.h"

namespace hf = holdfast;

namespace {

constexpr int64_t kChannels = 2560;
constexpr int64_t kOutputs = 256;
constexpr int64_t kRotations = 8;
constexpr int64_t kGroup = 128;

const char* const kRotate = R"(
threadgroup float tile[128 * R];
uint t = thread_position_in_threadgroup.x;
uint group = threadgroup_position_in_grid.y;
uint first_row = threadgroup_position_in_grid.x * R;

for (uint c = t; c < 128; c += 64) {
  uint channel = group * 128 + c;
  for (uint r = 0; r < R; ++r) {
    uint row = first_row + r;
    tile[c * R + r] = row < rows ? float(x[row * D + channel]) * scale[channel] : 0.0f;
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);

// The pairs of one rotation are disjoint, so each thread has two channels to itself.
for (uint k = 0; k < K; ++k) {
  uint at = k * (D / 2) + group * 64 + t;
  uint pair = uint(pairs[at]);
  uint i = pair & 0xffffu;
  uint j = pair >> 16;
  for (uint r = 0; r < R; ++r) {
    float a = tile[i * R + r];
    float b = tile[j * R + r];
    tile[i * R + r] = a * cosine[at] + b * sine[at];
    tile[j * R + r] = b * cosine[at] - a * sine[at];
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

struct Weights {
  hf::Array pairs, cosine, sine, scale;  // of the rotations
  hf::Array packed, scales, biases;      // of the product
};

hf::Array rotate(const hf::Kernel& kernel, const hf::Array& x, const Weights& w) {
  const int64_t rows = x.shape(0);
  const int64_t tile_rows = rows <= 1 ? 1 : 4;
  return kernel(
      {x, w.pairs, w.cosine, w.sine, w.scale},
      {.grid = {static_cast<uint32_t>((rows + tile_rows - 1) / tile_rows * 64),
                uint32_t{kChannels / kGroup}, 1},
       .threadgroup = {64, 1, 1},
       .output_shapes = {x.shape()},
       .output_dtypes = {x.dtype()},
       .constants = {{"T", x.dtype()}, {"R", tile_rows}, {"D", kChannels}, {"K", kRotations}},
       .params = {{"rows", static_cast<uint32_t>(rows)}}})[0];
}

Weights make_weights() {
  // Disjoint pairs of each group, for each rotation: neighbours in a random order.
  std::vector<int32_t> pairs;
  uint64_t state = 7;
  const auto below = [&state](uint64_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>((state >> 33) % n);
  };
  for (int64_t i = 0; i < kRotations * kChannels / kGroup; ++i) {
    std::vector<int32_t> order(kGroup);
    std::iota(order.begin(), order.end(), 0);
    for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[below(n)]);
    for (size_t t = 0; t < order.size(); t += 2) pairs.push_back(order[t] | order[t + 1] << 16);
  }
  const hf::Array angles = hf::random_uniform({kRotations, kChannels / 2}) * 6.28;
  const std::vector<hf::Array> quantized =
      hf::quantize(hf::random_normal({kOutputs, kChannels}) * 0.02, {.group_size = kGroup});
  return {hf::Array(pairs, {kRotations, kChannels / 2}),
          hf::cos(angles),
          hf::sin(angles),
          0.5 + hf::random_uniform({kChannels}),
          quantized[0],
          quantized[1],
          quantized[2]};
}

template <typename T>
std::vector<double> doubles(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}
std::vector<double> doubles(const hf::Array& a) {
  return doubles(hf::astype(a, hf::float32).to_vector<float>());
}

struct Reference {
  std::vector<double> rotated, product;
};

Reference reference(const hf::Array& x, const Weights& w) {
  Reference r;
  r.rotated = doubles(x);
  const std::vector<int32_t> pairs = w.pairs.to_vector<int32_t>();
  const std::vector<double> cosine = doubles(w.cosine);
  const std::vector<double> sine = doubles(w.sine);
  const std::vector<double> scale = doubles(w.scale);
  const auto rows = static_cast<size_t>(x.shape(0));
  for (size_t row = 0; row < rows; ++row) {
    double* const v = r.rotated.data() + row * kChannels;
    for (size_t c = 0; c < kChannels; ++c) v[c] *= scale[c];
    for (size_t at = 0; at < pairs.size(); ++at) {
      double* const group = v + at % (kChannels / 2) / (kGroup / 2) * kGroup;
      double& a = group[pairs[at] & 0xffff];
      double& b = group[pairs[at] >> 16];
      const double turned = a * cosine[at] + b * sine[at];
      b = b * cosine[at] - a * sine[at];
      a = turned;
    }
  }
  const std::vector<uint32_t> packed = w.packed.to_vector<uint32_t>();
  const std::vector<double> scales = doubles(w.scales);
  const std::vector<double> biases = doubles(w.biases);
  r.product.resize(rows * kOutputs);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t o = 0; o < kOutputs; ++o) {
      for (size_t c = 0; c < kChannels; ++c) {
        const double q = (packed[o * (kChannels / 8) + c / 8] >> (4 * (c % 8))) & 15U;
        const size_t g = o * (kChannels / kGroup) + c / kGroup;
        r.product[row * kOutputs + o] +=
            r.rotated[row * kChannels + c] * (scales[g] * q + biases[g]);
      }
    }
  }
  return r;
}

}  // namespace

int main() {
  hf::random_seed(2);
  hf::default_device().set_kernel_limits({.variants = 1});
  const hf::Kernel kernel({.name = "paro_rotate",
                           .inputs = {"x", "pairs", "cosine", "sine", "scale"},
                           .outputs = {"y"},
                           .source = kRotate});
  const Weights weights = make_weights();

  struct Case {
    hf::Array x, rotated, product;
    double tolerance;
  };
  std::vector<Case> cases;
  std::vector<hf::Array> all;
  for (const int64_t rows : {1, 7}) {
    const hf::Array x = hf::random_normal({rows, kChannels});
    // One rounding when the rotated values are stored; float arithmetic otherwise.
    for (const auto& [dtype, tolerance] :
         {std::pair(hf::float16, 0x1p-10), std::pair(hf::bfloat16, 0x1p-7),
          std::pair(hf::float32, 1e-5)}) {
      const hf::Array stored = hf::astype(x, dtype);
      const hf::Array rotated = rotate(kernel, stored, weights);
      // float32 scales promote the product of float16 values to float32.
      const hf::Array product = hf::quantized_matmul(rotated, weights.packed, weights.scales,
                                                     weights.biases, {.group_size = kGroup});
      cases.push_back({stored, rotated, product, tolerance});
      all.push_back(rotated);
      all.push_back(product);
    }
  }
  hf::eval(all);

  bool right = true;
  for (const Case& c : cases) {
    const Reference expected = reference(c.x, weights);
    const std::string what =
        "M = " + std::to_string(c.x.shape(0)) + ", " + hf::to_string(c.x.dtype());
    const auto floats = [](const hf::Array& a) {
      return hf::astype(a, hf::float32).to_vector<float>();
    };
    right &= check((what + ", rotated").c_str(),
                   relative_error(floats(c.rotated), expected.rotated), c.tolerance);
    right &= check((what + ", product").c_str(),
                   relative_error(floats(c.product), expected.product), c.tolerance);
    right &= c.product.dtype() == hf::float32;
  }
  return right ? 0 : 1;
}
