// rms_norm and layer_norm.

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/fast.h"

namespace holdfast {
namespace {

// x has the axis last; y is [rows, length]. Constants: A, what is computed in; R, the type of y;
// HALF: x is float16, bound as bits; LAYER: the mean is subtracted; WEIGHT, BIAS: whether they are
// given (otherwise another input is bound in their place, which nothing reads). Params: "length",
// "eps".
constexpr const char* kNormBegin = R"(
const int last = x_ndim - 1;
const long step = x_strides[last];
auto from = x + elem_to_loc(row, x_shape, x_strides, last);
auto to = y + row * length;
)";
// The last step: v is the element less the mean, over the root.
constexpr const char* kNormElement = R"(
inline A normal(A v, A w, A b) { return (WEIGHT ? v * w : v) + (BIAS ? b : A(0)); }
#define NORMAL_AT(k)                                                                     \
  normal((load<A, HALF>(from[(k) * step]) - mean) * scale, WEIGHT ? A(weight[k]) : A(0), \
         BIAS ? A(bias[k]) : A(0))
)";

// A thread has a row. Many accumulators fill vector registers; results are converted in blocks.
const Kernel& norm_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "norm",
      .inputs = {"x", "weight", "bias"},
      .outputs = {"y"},
      .source = std::string("const long row = thread_position_in_grid.x;\n") + kNormBegin + R"(
A mean = A(0);
#if LAYER
mean = sum_of(from, step, length, [](A v) { return v; }) / A(length);
#endif
const A squares = sum_of(from, step, length, [&](A v) { return (v - mean) * (v - mean); });
const A scale = A(1) / metal::sqrt(squares / A(length) + A(eps));
long k = 0;
for (; step == 1 && k + BLOCK <= length; k += BLOCK) {
  A some[BLOCK];
  A weights[BLOCK];
  A biases[BLOCK];
  if (WEIGHT) load_block(weight + k, weights);
  if (BIAS) load_block(bias + k, biases);
  for (int j = 0; j < BLOCK; ++j) {
    some[j] = normal((load<A, HALF>(from[k + j]) - mean) * scale, WEIGHT ? weights[j] : A(0),
                     BIAS ? biases[j] : A(0));
  }
  device R* const block = to + k;
  convert<BLOCK>(some, block);
}
for (; k < length; ++k) to[k] = R(NORMAL_AT(k));
)",
      .header = std::string(array::kLoadText) + array::kPackText + array::kConvertText +
                kNormElement + R"(
constexpr int BLOCK = 64;
template <class P> inline void load_block(P at, thread A* to) {
  const device ElementOf<P>* from = at;
  convert<BLOCK>(from, to);
}
template <class P, class F> inline A sum_of(P from, long step, long n, F of) {
  constexpr int LANES = 32;
  A sums[LANES];
  for (int j = 0; j < LANES; ++j) sums[j] = A(0);
  long k = 0;
  if (step == 1) {
    for (; k + LANES <= n; k += LANES) {
      for (int j = 0; j < LANES; ++j) sums[j] += of(load<A, HALF>(from[k + j]));
    }
  }
  for (; k < n; ++k) sums[k % LANES] += of(load<A, HALF>(from[k * step]));
  for (int width = LANES / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return sums[0];
}
)"});
  return kernel;
}

// A threadgroup of many weak threads has a row.
const Kernel& weak_norm_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "norm_weak",
      .inputs = {"x", "weight", "bias"},
      .outputs = {"y"},
      .source = std::string(array::kGroupNumberText) + "const long row = number;\n" + kNormBegin +
                R"(
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
const auto add = [](A a, A b) { return a + b; };
A mean = A(0);
#if LAYER
A sum = A(0);
for (long k = t; k < length; k += 256) sum += load<A, HALF>(from[k * step]);
mean = joined_in_group(sum, meeting, t, add) / A(length);
#endif
A squares = A(0);
for (long k = t; k < length; k += 256) {
  const A v = load<A, HALF>(from[k * step]) - mean;
  squares += v * v;
}
squares = joined_in_group(squares, meeting, t, add);
const A scale = A(1) / metal::sqrt(squares / A(length) + A(eps));
for (long k = t; k < length; k += 256) to[k] = R(NORMAL_AT(k));
)",
      .header = std::string(array::kLoadText) + kNormElement + array::kJoinText});
  return kernel;
}

// A shorter row is one thread's, weak or strong.
constexpr int64_t kFewNormed = 32;

class NormOperation final : public Operation {
 public:
  NormOperation(bool layer, bool weight, bool bias, float eps)
      : layer_(layer), weight_(weight), bias_(bias), eps_(eps) {}
  std::string_view name() const noexcept override { return layer_ ? "layer_norm" : "rms_norm"; }
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    for (const Shape& row : inputs.subspan(1)) {
      if (row.back() != inputs[0].back()) {
        throw UsageError(fmt::format("{}: shapes {} and {} do not fit", name(),
                                     to_string(inputs[0]), to_string(row)));
      }
    }
    return {inputs[0]};
  }

  // Inputs: x, then the weight and the bias, where they are given.
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    const size_t axis = in.shape().size() - 1;
    const Operand x = array::as_bits(in).with_layout(array::with_axis_last(in.layout(), axis));
    const int64_t length = x.shape().back();
    const int64_t rows = x.size() / length;
    const Operand weight = weight_ ? encoder.contiguous(encoder.input(1)) : x;
    const Operand bias = bias_ ? encoder.contiguous(encoder.input(weight_ ? 2 : 1)) : x;

    const Dtype work = array::accumulator_of(out.dtype());
    const std::array constants{
        kernel::Constant{"A", work},         kernel::Constant{"R", out.dtype()},
        kernel::Constant{"LAYER", layer_},   kernel::Constant{"HALF", array::is_half(in)},
        kernel::Constant{"WEIGHT", weight_}, kernel::Constant{"BIAS", bias_}};
    std::vector<kernel::Param> params{{"length", length}, {"eps", eps_}};
    const bool weak = array::is_many_weak(encoder) && length >= kFewNormed;
    kernel::Size3 grid{1, 1, 1};
    kernel::Size3 group;
    if (weak) {
      const auto groups =
          array::weak_groups(rows, array::kWeakLine, 1, layer_ ? "layer_norm" : "rms_norm");
      grid = groups.grid;
      group = groups.group;
      params.push_back(groups.count);
    } else {
      grid.x = array::grid_axis(rows, layer_ ? "layer_norm" : "rms_norm");
      group = array::group_of(encoder, grid);
    }
    encoder.launch(weak ? weak_norm_kernel() : norm_kernel(),
                   {.inputs = std::array{x, weight, bias},
                    .outputs = {&out, 1},
                    .grid = grid,
                    .threadgroup = group,
                    .constants = constants,
                    .params = params,
                    .work_per_thread = array::share_of(3.0 * static_cast<double>(x.size()), grid)});
  }

 private:
  bool layer_;
  bool weight_;
  bool bias_;
  float eps_;
};

Array norm(const char* what, bool layer, const Array& x, const std::optional<Array>& weight,
           const std::optional<Array>& bias, float eps, const On& on) {
  if (x.ndim() == 0 || !is_floating(x.dtype())) {
    throw UsageError(
        fmt::format("{}: x is {} of shape {}; it must be an array of floats with one axis at least",
                    what, to_string(x.dtype()), to_string(x.shape())));
  }
  std::vector<Array> inputs{x};
  Dtype dtype = x.dtype();
  const auto add = [&](const std::optional<Array>& given, const char* name) {
    if (!given) return;
    if (given->ndim() != 1 || given->shape()[0] != x.shape(-1)) {
      throw UsageError(fmt::format(
          "{}: the {} has the shape {}; it must have one axis of length {}, as the last of x", what,
          name, to_string(given->shape()), x.shape(-1)));
    }
    dtype = promote(dtype, given->dtype());
    inputs.push_back(*given);
  };
  add(weight, "weight");
  add(bias, "bias");
  return apply(make_ref<const NormOperation>(layer, weight.has_value(), bias.has_value(), eps),
               inputs, {x.shape(), dtype}, on);
}

}  // namespace

namespace fast {

Array rms_norm(const Array& x, const std::optional<Array>& weight, float eps, const On& on) {
  return norm("rms_norm", /*layer=*/false, x, weight, {}, eps, on);
}
Array layer_norm(const Array& x, const std::optional<Array>& weight,
                 const std::optional<Array>& bias, float eps, const On& on) {
  return norm("layer_norm", /*layer=*/true, x, weight, bias, eps, on);
}

}  // namespace fast
}  // namespace holdfast
