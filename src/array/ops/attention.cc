#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "holdfast/array/layouts.h"
#include "holdfast/array/ops/attention_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/fast.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// Up to this many queries, one kernel reads keys and values once for each. For more, matrix
// products read them once for all.
constexpr int64_t kFewQueries = 8;
// Elements of keys and values that such a kernel has room for.
constexpr int64_t kMostAttentionWidth = 256;
// Below this many rows keys are cut into pieces, of at least that many.
constexpr int64_t kFewAttentionRows = 32;
constexpr int64_t kKeysOfPiece = 256;
constexpr int64_t kMaxAttentionPieces = 64;

// See attention_kernels.h.
int32_t mask_kind(const Operand& mask) { return mask.dtype() == Dtype::bool_ ? 1 : 2; }
Operand forwards(Encoder& encoder, const Operand& operand) {
  return operand.layout().has_negative_strides() ? encoder.contiguous(operand) : operand;
}

// Inputs: queries, keys, values, and the mask, where there is one.
class AttentionOperation final : public Operation {
 public:
  AttentionOperation(float scale, bool causal) : scale_(scale), causal_(causal) {}
  std::string_view name() const noexcept override { return "scaled_dot_product_attention"; }

  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    const Operand q = forwards(encoder, encoder.input(0));
    const Operand k = forwards(encoder, encoder.input(1));
    const Operand v = forwards(encoder, encoder.input(2));
    const bool masked = encoder.inputs() > 3;
    const Operand mask = masked ? forwards(encoder, encoder.input(3)) : q;
    const int32_t kind = masked ? mask_kind(mask) : 0;

    const int64_t heads = q.shape()[1];
    const int64_t queries = q.shape()[2];
    const int64_t keys = k.shape()[2];
    const int64_t rows = q.shape()[0] * heads * queries;
    if (keys == 0) return encoder.fill(out, std::byte{0});
    const bool weak = array::is_many_weak(encoder);
    int64_t pieces = 1;
    if (rows < (weak ? array::kWeakGroups : kFewAttentionRows)) {
      pieces = std::clamp<int64_t>(keys / kKeysOfPiece, 1, kMaxAttentionPieces);
    }
    const int64_t piece_length = ceil_div(keys, pieces);
    pieces = ceil_div(keys, piece_length);

    const bool whole = pieces == 1;
    const Dtype work = array::accumulator_of(out.dtype());
    const int64_t values = v.shape()[3];
    const std::array results{whole ? out : encoder.scratch({rows, pieces, values}, work),
                             encoder.scratch({whole ? 1 : rows, pieces, 2}, work)};
    const std::array constants{kernel::Constant{"A", work},
                               kernel::Constant{"R", results[0].dtype()},
                               kernel::Constant{"WHOLE", whole},
                               kernel::Constant{"HALF", array::is_half(q)},
                               kernel::Constant{"WIDTH", q.shape()[3]},
                               kernel::Constant{"VALUES", values}};
    std::vector<kernel::Param> params{{"queries", queries},
                                      {"keys", keys},
                                      {"heads", heads},
                                      {"sharing", heads / k.shape()[1]},
                                      {"piece_length", piece_length},
                                      {"scale", scale_},
                                      {"mask_kind", kind},
                                      {"causal", causal_}};
    kernel::Size3 grid{static_cast<uint32_t>(rows), static_cast<uint32_t>(pieces), 1};
    kernel::Size3 group{1, 1, 1};
    if (weak) {
      const auto groups = array::weak_groups(rows, array::kWeakLine, pieces, "attention");
      grid = groups.grid;
      group = groups.group;
      params.push_back(groups.count);
    }
    const double steps = static_cast<double>(rows) * static_cast<double>(keys) *
                         static_cast<double>(q.shape()[3] + values);
    encoder.launch(
        weak ? array::weak_attention_kernel() : array::attention_kernel(),
        {.inputs = std::array{array::as_bits(q), array::as_bits(k), array::as_bits(v), mask},
         .outputs = results,
         .grid = grid,
         .threadgroup = group,
         .constants = constants,
         .params = params,
         .work_per_thread = array::share_of(steps, grid)});
    if (whole) return;
    const kernel::Size3 each{array::grid_axis(out.size(), "attention"), 1, 1};
    encoder.launch(
        array::attention_join_kernel(),
        {.inputs = results,
         .outputs = {&out, 1},
         .grid = each,
         .threadgroup = array::group_of(encoder, each),
         .constants = std::array{kernel::Constant{"A", work}, kernel::Constant{"R", out.dtype()},
                                 kernel::Constant{"VALUES", values}},
         .params = std::array{kernel::Param{"pieces", pieces}}});
  }

 private:
  float scale_;
  bool causal_;
};

// Inputs: products of queries and keys, [batch, heads, queries, keys]; and the mask or, if there is
// none, anything of four axes, which stands in its place.
class AttentionWeights final : public Operation {
 public:
  AttentionWeights(bool masked, bool causal) : masked_(masked), causal_(causal) {}
  std::string_view name() const noexcept override { return "attention_weights"; }
  bool takes_inputs() const noexcept override { return true; }

  void record(Encoder& encoder) const override {
    const Operand& scores = encoder.take(0, 0);
    if (scores.size() == 0) return;
    const Operand mask = forwards(encoder, encoder.input(1));
    const int32_t kind = masked_ ? mask_kind(mask) : 0;
    const int64_t keys = scores.shape()[3];
    const int64_t rows = scores.size() / keys;
    const std::array constants{
        kernel::Constant{"A", array::accumulator_of(scores.dtype())},
        kernel::Constant{"R", scores.dtype()},
    };
    std::vector<kernel::Param> params{
        {"queries", scores.shape()[2]}, {"keys", keys}, {"mask_kind", kind}, {"causal", causal_}};
    const bool weak = array::is_many_weak(encoder);
    kernel::Size3 grid{1, 1, 1};
    kernel::Size3 group;
    if (weak) {
      const auto groups = array::weak_groups(rows, array::kWeakLine, 1, "attention");
      grid = groups.grid;
      group = groups.group;
      params.push_back(groups.count);
    } else {
      grid.x = array::grid_axis(rows, "attention");
      group = array::group_of(encoder, grid);
    }
    encoder.launch(
        weak ? array::weak_attention_weights_kernel() : array::attention_weights_kernel(),
        {.inputs = {&mask, 1},
         .in_place = {&scores, 1},
         .grid = grid,
         .threadgroup = group,
         .constants = constants,
         .params = params,
         .work_per_thread = array::share_of(8.0 * static_cast<double>(scores.size()), grid)});
  }

 private:
  bool masked_;
  bool causal_;
};

void check_attention(const Array& q, const Array& k, const Array& v) {
  const auto fail = [&](const char* why) {
    throw UsageError(
        fmt::format("scaled_dot_product_attention: queries {}, keys {} and values {}: {}",
                    to_string(q.shape()), to_string(k.shape()), to_string(v.shape()), why));
  };
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) {
    fail("give four axes to each: batch, heads, positions, elements");
  }
  if (k.shape(0) != q.shape(0) || v.shape(0) != q.shape(0))
    fail("the batches differ; make them one");
  if (k.shape(1) != v.shape(1)) fail("keys and values need the same number of heads");
  if (k.shape(1) == 0 ? q.shape(1) != 0 : q.shape(1) % k.shape(1) != 0) {
    fail("the heads of queries must be a multiple of those of keys");
  }
  if (k.shape(2) != v.shape(2)) fail("keys and values need the same number of positions");
  if (k.shape(3) != q.shape(3)) fail("queries and keys need the same number of elements");
  for (const Array& x : {q, k, v}) {
    if (!is_floating(x.dtype())) fail("they must be floats; convert them with astype");
  }
}

// Broadcast to the shape of products.
Array checked_mask(const Array& mask, const Shape& shape, Dtype dtype) {
  const bool fits = mask.dtype() == Dtype::bool_ || promote(mask.dtype(), dtype) == dtype;
  if (!fits) {
    throw UsageError(fmt::format(
        "scaled_dot_product_attention: a mask of {} for products of {}; use bool or a dtype that "
        "promotes to it, or convert the mask with astype",
        to_string(mask.dtype()), to_string(dtype)));
  }
  bool broadcasts = mask.ndim() <= shape.size();
  for (size_t i = 0; broadcasts && i < mask.ndim(); ++i) {
    const int64_t length = mask.shape()[mask.ndim() - 1 - i];
    broadcasts = length == 1 || length == shape[shape.size() - 1 - i];
  }
  if (!broadcasts) {
    throw UsageError(fmt::format(
        "scaled_dot_product_attention: a mask of shape {} cannot be broadcast to {} (batch, heads, "
        "queries, keys); change its shape",
        to_string(mask.shape()), to_string(shape)));
  }
  return broadcast_to(mask, shape);
}

}  // namespace

namespace fast {

Array scaled_dot_product_attention(const Array& queries, const Array& keys, const Array& values,
                                   float scale, const AttentionMask& mask, const On& on) {
  check_attention(queries, keys, values);
  const Dtype dtype = promote(queries.dtype(), promote(keys.dtype(), values.dtype()));
  const Array q = astype(queries, dtype, on);
  const Array k = astype(keys, dtype, on);
  const Array v = astype(values, dtype, on);
  const int64_t batch = q.shape(0);
  const int64_t heads = q.shape(1);
  const int64_t key_heads = k.shape(1);
  const int64_t count = q.shape(2);
  const Shape products{batch, heads, count, k.shape(2)};
  const Shape result{batch, heads, count, v.shape(3)};
  std::vector<Array> inputs;
  if (mask.array) inputs.push_back(checked_mask(*mask.array, products, dtype));

  const bool fits = q.shape(3) <= kMostAttentionWidth && v.shape(3) <= kMostAttentionWidth;
  // Without elements, products are zeros, which no kernel needs to compute.
  if ((count <= kFewQueries && fits && q.shape(3) > 0) || elements(products) == 0) {
    inputs.insert(inputs.begin(), {q, k, v});
    return apply(make_ref<const AttentionOperation>(scale, mask.causal), inputs, {result, dtype},
                 on);
  }
  // Heads that share keys are rows of one product.
  const Shape together{batch, key_heads, heads / key_heads * count, q.shape(3)};
  const Array scaled = reshape(multiply(q, scale, on), together, on);
  const Array scores = reshape(matmul(scaled, swap_axes(k, 2, 3), on), products, on);
  Array weights;
  if (mask.array || mask.causal) {
    const std::array of{scores, mask.array ? inputs[0] : q};
    weights = apply(make_ref<const AttentionWeights>(mask.array.has_value(), mask.causal), of,
                    {products, dtype}, on);
  } else {
    weights = softmax(scores, -1, on);
  }
  const Shape by_key_heads{batch, key_heads, heads / key_heads * count, k.shape(2)};
  return reshape(matmul(reshape(weights, by_key_heads, on), v, on), result, on);
}

}  // namespace fast
}  // namespace holdfast
