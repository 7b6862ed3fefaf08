#include "holdfast/fast.h"

#include <string>

#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

fast::AttentionMask mask_of(const nb::object& given, const On& on, const Array& beside) {
  if (given.is_none()) return {};
  if (!nb::isinstance<nb::str>(given)) return {.array = ArrayLike(given).array(on, beside)};
  if (nb::cast<std::string>(given) != "causal") {
    throw nb::value_error("a mask is an array, 'causal' or None");
  }
  return {.causal = true};
}

}  // namespace

void bind_fast(nb::module_& m) {
  const auto stream = "stream"_a = nb::none();
  m.def("_rms_norm", &fast::rms_norm, "x"_a, "weight"_a.none(), "eps"_a, nb::kw_only(), stream,
        "x / sqrt(mean(x * x) + eps) * weight, over the last axis");
  m.def("_layer_norm", &fast::layer_norm, "x"_a, "weight"_a.none(), "bias"_a.none(), "eps"_a,
        nb::kw_only(), stream,
        "(x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over the last axis");
  m.def(
      "_rope",
      [](const Array& a, int64_t dims, bool traditional, std::optional<float> base, float scale,
         const ArrayLike& offset, const std::optional<Array>& freqs, const On& on) {
        if (base.has_value() == freqs.has_value()) {
          throw nb::value_error("rope takes a base or freqs, and not both");
        }
        fast::Rope how{.traditional = traditional, .scale = scale, .freqs = freqs};
        if (base) how.base = *base;
        return fast::rope(a, dims, how, offset.term(on, a), on);
      },
      "a"_a, "dims"_a, nb::kw_only(), "traditional"_a, "base"_a.none(), "scale"_a, "offset"_a,
      "freqs"_a = nb::none(), stream, "Rotates pairs of elements by angles of their position");
  m.def(
      "_scaled_dot_product_attention",
      [](const Array& q, const Array& k, const Array& v, float scale, const nb::object& mask,
         const On& on) {
        return fast::scaled_dot_product_attention(q, k, v, scale, mask_of(mask, on, q), on);
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "scale"_a, "mask"_a = nb::none(), stream,
      nb::sig("def _scaled_dot_product_attention(q: array, k: array, v: array, *, scale: float, "
              "mask: array | str | None = None, stream: Stream | Device | str | None = None) "
              "-> array"),
      "softmax(q * scale @ k.mT + mask) @ v");
}

}  // namespace holdfast::python
