#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/array.h"
#include "holdfast/ops.h"

#pragma GCC visibility push(default)

// What models spend their time in, each in one or a few kernels. Arguments and results as in MLX's
// `fast`. Floats only; two-byte floats are computed in float32.
namespace holdfast::fast {

// x / sqrt(mean(x^2) + eps) * weight, over the last axis. The weight has one axis, of its length.
// The result's dtype is the promoted one.
Array rms_norm(const Array& x, const std::optional<Array>& weight = {}, float eps = 1e-5F,
               const On& on = {});
// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, likewise.
Array layer_norm(const Array& x, const std::optional<Array>& weight = {},
                 const std::optional<Array>& bias = {}, float eps = 1e-5F, const On& on = {});

// Rotates pairs of elements by angles that grow with their position: those of the first `dims`
// elements of each row of x[..., positions, elements], which has three axes at least. Pair i of
// position p turns by (p + offset) * scale * base^(-2i / dims).
struct Rope {
  // Pairs are neighbours: (0, 1), (2, 3), ... Otherwise an element and that dims / 2 after it.
  bool traditional = false;
  float base = 10000.0F;
  float scale = 1.0F;
  // If given, 1 / freqs[i] takes the place of the power of the base; it has dims / 2 elements.
  std::optional<Array> freqs{};
};
// The offset is a number, or integers: one, or one for each x[i].
Array rope(const Array& x, int64_t dims, const Rope& how = {}, const Term& offset = 0,
           const On& on = {});

// softmax(queries * scale @ keys^T + mask) @ values, for queries [batch, heads, queries, width],
// keys [batch, key heads, keys, width] and values [batch, key heads, keys, value width]. The number
// of heads is a multiple of that of key heads; neighbouring heads share one. A query that may
// attend to nothing gives zeros.
struct AttentionMask {
  // Broadcast to [batch, heads, queries, keys]. Bool: true where a query attends to a key.
  // Otherwise it is added to the products.
  std::optional<Array> array{};
  // A query attends to no keys after it. The last query stands at the last key.
  bool causal = false;
};
// For many queries, the products of queries and keys are rounded to the dtype once before the
// softmax, as matmul() does.
Array scaled_dot_product_attention(const Array& queries, const Array& keys, const Array& values,
                                   float scale, const AttentionMask& mask = {}, const On& on = {});

}  // namespace holdfast::fast

#pragma GCC visibility pop
