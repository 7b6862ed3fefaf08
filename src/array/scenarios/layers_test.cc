// mlx#3263, workload 1 in small: twelve layers through one kernel, each with weights of its own,
// evaluated at once. Layer two used to compute with the weights of layer one.

#include <cmath>
#include <functional>

#include "holdfast/array/scenarios/interlude_test.h"
#include "holdfast/compile.h"

namespace holdfast {
namespace {

constexpr int64_t kLayers = 12;
constexpr int64_t kWidth = 16;
constexpr size_t kCells = kWidth;
using Row = std::vector<float>;

// y = sign * (b + W h), h = (x - mean) / sqrt(variance + 1e-5) * gamma + beta.
Kernel fused_layer(const std::string& sign) {
  return Kernel({.name = "fused_ln_gemv",
                 .inputs = {"x", "w", "gamma", "beta", "bias"},
                 .outputs = {"y"},
                 .source = R"(
uint o = thread_position_in_grid.x;
float mean = 0.0f;
for (int j = 0; j < N; ++j) mean += float(x[j]);
mean /= float(N);
float variance = 0.0f;
for (int j = 0; j < N; ++j) variance += (float(x[j]) - mean) * (float(x[j]) - mean);
float scale = 1.0f / metal::sqrt(variance / float(N) + 1e-5f);
float sum = float(bias[o]);
for (int j = 0; j < N; ++j) {
  float h = (float(x[j]) - mean) * scale * float(gamma[j]) + float(beta[j]);
  sum += float(w[o * uint(N) + uint(j)]) * h;
}
y[o] = half()" + sign + "sum);\n"});
}

// Numbers that float16 has, the same in every run.
Row numbers(uint32_t seed, size_t count, float scale, float offset = 0) {
  Row values;
  uint32_t state = seed * 2654435761U + 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const float u = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
    values.push_back(static_cast<float>(Float16(u * scale + offset)));
  }
  return values;
}

struct Weights {
  Row w, gamma, beta, bias;
};

std::vector<Weights> make_weights() {
  std::vector<Weights> all;
  for (uint32_t l = 0; l < kLayers; ++l) {
    const float scale = std::sqrt(3.0F / static_cast<float>(kWidth));
    all.push_back({numbers(4 * l + 1, kCells * kCells, scale), numbers(4 * l + 2, kCells, 0.25F, 1),
                   numbers(4 * l + 3, kCells, 0.25F), numbers(4 * l + 4, kCells, 0.25F)});
  }
  return all;
}

std::vector<double> reference(const std::vector<double>& x, const Weights& weights) {
  double mean = 0;
  for (const double v : x) mean += v / kWidth;
  double variance = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / kWidth;
  std::vector<double> y;
  for (size_t o = 0; o < kCells; ++o) {
    double sum = weights.bias[o];
    for (size_t j = 0; j < kCells; ++j) {
      const double h = (x[j] - mean) / std::sqrt(variance + 1e-5) * weights.gamma[j];
      sum += weights.w[o * kCells + j] * (h + weights.beta[j]);
    }
    y.push_back(sum);
  }
  return y;
}

// The four arguments of a layer besides x.
using Bound = std::vector<Array>;

Array half_array(const Row& values, const Shape& shape, std::string name) {
  return Array(halves(values), shape, std::move(name));
}

// An allocation for each.
std::vector<Bound> separate(const std::vector<Weights>& weights) {
  std::vector<Bound> all;
  for (const Weights& w : weights) {
    all.push_back({half_array(w.w, {kWidth, kWidth}, "w"), half_array(w.gamma, {kWidth}, "gamma"),
                   half_array(w.beta, {kWidth}, "beta"), half_array(w.bias, {kWidth}, "bias")});
  }
  return all;
}

// One allocation for all layers; `layer_axis` 1: layer after layer inside each row, so that no
// layer is contiguous.
std::vector<Bound> slices(const std::vector<Weights>& weights, int64_t layer_axis) {
  const auto together = [&](Row Weights::*part, int64_t rows) {
    const auto chunk = static_cast<size_t>(kWidth);
    Row values(weights.size() * static_cast<size_t>(rows) * chunk);
    for (size_t l = 0; l < weights.size(); ++l) {
      for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
        const size_t place =
            layer_axis == 0 ? l * static_cast<size_t>(rows) + r : r * weights.size() + l;
        for (size_t i = 0; i < chunk; ++i) {
          values[place * chunk + i] = (weights[l].*part)[r * chunk + i];
        }
      }
    }
    return layer_axis == 0 ? half_array(values, {kLayers, rows, kWidth}, "all layers")
                           : half_array(values, {rows, kLayers, kWidth}, "all layers");
  };
  const Array w = together(&Weights::w, kWidth);
  const Array gamma = together(&Weights::gamma, 1);
  const Array beta = together(&Weights::beta, 1);
  const Array bias = together(&Weights::bias, 1);
  std::vector<Bound> all;
  for (int64_t l = 0; l < kLayers; ++l) {
    const auto vector = [&](const Array& a) { return squeeze(index(a, l, layer_axis)); };
    all.push_back({index(w, l, layer_axis), vector(gamma), vector(beta), vector(bias)});
  }
  return all;
}

Array call(const Kernel& kernel, const Array& x, const Bound& bound, int64_t layer) {
  return kernel({x, bound[0], bound[1], bound[2], bound[3]},
                {.grid = {kWidth, 1, 1},
                 .threadgroup = {8, 1, 1},
                 .output_shapes = {{kWidth}},
                 .output_dtypes = {float16},
                 .constants = {{"N", kWidth}},
                 .label = "layer " + std::to_string(layer)})[0];
}

std::vector<double> layer_values(const Array& array) {
  const Row values = floats(array.to_vector<Float16>());
  return {values.begin(), values.end()};
}

// x, and what each layer makes of the one before it.
using Chain = std::function<std::vector<Array>(const Array&, const std::vector<Bound>&)>;

std::vector<Array> chain_of(const std::vector<Kernel>& kernels, const Array& x,
                            const std::vector<Bound>& bound) {
  std::vector<Array> layers{x};
  for (size_t l = 0; l < bound.size(); ++l) {
    layers.push_back(
        call(kernels[l % kernels.size()], layers.back(), bound[l], static_cast<int64_t>(l)));
  }
  return layers;
}

// The whole chain in one evaluation, its weights dropped before. Each layer is compared with what
// its own weights make of the layer before it.
void check_layers(std::vector<Bound> bound, const std::vector<Weights>& weights,
                  const std::vector<Kernel>& kernels, const Chain& chain = {}) {
  const Array first = half_array(numbers(99, kCells, 1), {kWidth}, "x");
  std::vector<Array> layers = chain ? chain(first, bound) : chain_of(kernels, first, bound);
  bound.clear();
  async_eval(layers);
  std::vector<double> x = layer_values(layers[0]);
  for (size_t l = 0; l < weights.size(); ++l) {
    const std::vector<double> expected = reference(x, weights[l]);
    const double sign = l % kernels.size() == 0 ? 1 : -1;
    x = layer_values(layers[l + 1]);
    for (size_t o = 0; o < kCells; ++o) {
      // One rounding to float16, of a sum made in float32 of numbers of about one.
      const double tolerance = std::abs(expected[o]) * 0x1p-11 + 1e-5;
      ASSERT_NEAR(x[o], sign * expected[o], tolerance) << "layer " << l << ", output " << o;
    }
  }
}

ARRAY_SCENARIO(mlx_3263_each_layer_computes_with_its_own_weights) {
  ArrayRig rig(world, {.submit = kOneList});
  const std::vector<Weights> weights = make_weights();
  check_layers(separate(weights), weights, {fused_layer("")});
  if (world.has_faults()) return;
  const Stats stats = rig.stats();
  EXPECT_EQ(stats.nodes_recorded, uint64_t{kLayers});
  EXPECT_EQ(stats.kernels.compiles, 1U);
  EXPECT_EQ(stats.kernels.variants, 1U);
  EXPECT_EQ(stats.hidden_copies, 0U);
}

ARRAY_SCENARIO(mlx_3263_weights_are_slices_of_one_buffer) {
  ArrayRig rig(world, {.submit = kOneList});
  const std::vector<Weights> weights = make_weights();
  check_layers(slices(weights, 0), weights, {fused_layer("")});
  if (world.has_faults()) return;
  const Stats stats = rig.stats();
  EXPECT_EQ(stats.kernels.compiles, 1U);
  EXPECT_EQ(stats.hidden_copies, 0U) << "a contiguous slice is bound where it lies";
}

ARRAY_SCENARIO(mlx_3263_weights_are_strided_slices_of_one_buffer) {
  ArrayRig rig(world, {.submit = kOneList});
  const std::vector<Weights> weights = make_weights();
  check_layers(slices(weights, 1), weights, {fused_layer("")});
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().hidden_copies, uint64_t{kLayers}) << "of w; the vectors are contiguous";
}

ARRAY_SCENARIO(mlx_3263_two_sources_under_one_name_in_one_graph) {
  ArrayRig rig(world, {.submit = kOneList});
  const std::vector<Weights> weights = make_weights();
  check_layers(separate(weights), weights, {fused_layer(""), fused_layer("-")});
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().kernels.compiles, 2U);
  EXPECT_EQ(rig.stats().kernels.variants, 2U);
}

// Compiled: the weights are arguments that lie anywhere, or constants of the program.
ARRAY_SCENARIO(mlx_3263_compiled_layers_compute_with_their_own_weights) {
  ArrayRig rig(world);
  const std::vector<Weights> weights = make_weights();
  const std::vector<Kernel> kernels{fused_layer(""), fused_layer("-")};
  const auto f = compile(
      [&](const Array& x, const std::vector<Bound>& bound) { return chain_of(kernels, x, bound); });
  check_layers(slices(weights, 0), weights, kernels, f);
  check_layers(separate(weights), weights, kernels, f);
  const auto with_constants = compile(
      [&, bound = separate(weights)](const Array& x) { return chain_of(kernels, x, bound); });
  for (int round = 0; round < 2; ++round) {
    check_layers({}, weights, kernels,
                 [&](const Array& x, const std::vector<Bound>&) { return with_constants(x); });
  }
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().kernels.compiles, 2U);
  EXPECT_EQ(rig.stats().replays, 4U);
  EXPECT_EQ(rig.stats().functions_traced, 3U);
}

// Nobody keeps the layers between, so their memory goes round while the list is recorded.
ARRAY_SCENARIO(mlx_3263_only_the_last_layer_is_kept) {
  ArrayRig rig(world, {.submit = kOneList});
  const std::vector<Weights> weights = make_weights();
  const Kernel kernel = fused_layer("");
  const Row first = numbers(99, kCells, 1);
  std::vector<double> expected(first.begin(), first.end());
  Array x = half_array(first, {kWidth}, "x");
  {
    const std::vector<Bound> bound = separate(weights);
    for (size_t l = 0; l < weights.size(); ++l) {
      x = call(kernel, x, bound[l], static_cast<int64_t>(l));
      expected = reference(expected, weights[l]);
    }
  }
  const std::vector<double> got = layer_values(x);
  for (size_t o = 0; o < kCells; ++o) {
    // Each layer rounds to float16 once, 2^-11 of numbers up to four, and passes errors on about as
    // large as they were; another layer's weights are wrong by about one.
    EXPECT_NEAR(got[o], expected[o], 0.05) << "output " << o;
  }
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().nodes_recorded, uint64_t{kLayers});
  EXPECT_GT(rig.stats().runtime.memory.reused_in_order, 0U);
}

}  // namespace
}  // namespace holdfast
