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

}  // namespace holdfast::fast

#pragma GCC visibility pop
