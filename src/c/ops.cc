#include "holdfast/ops.h"

#include "holdfast/c/arguments.h"
#include "holdfast/fast.h"
#include "holdfast/scans.h"
#include "holdfast/sorting.h"

namespace holdfast::c {
namespace {

using Unary = Array (*)(const Array&, const On&);
// In the order of hf_unary_op.
constexpr Unary kUnary[] = {
    negative, abs,        sign,    square,  floor,   ceil, round,  logical_not, bitwise_invert,
    isnan,    isfinite,   isinf,   exp,     expm1,   log,  log1p,  log2,        sqrt,
    rsqrt,    reciprocal, sin,     cos,     tan,     sinh, cosh,   tanh,        arcsin,
    arccos,   arctan,     arcsinh, arccosh, arctanh, erf,  sigmoid};
static_assert(std::size(kUnary) == HF_SIGMOID + 1);

using Binary = Array (*)(const Term&, const Term&, const On&);
// In the order of hf_binary_op.
constexpr Binary kBinary[] = {add,           subtract,    multiply,   divide,      floor_divide,
                              remainder,     power,       maximum,    minimum,     arctan2,
                              equal,         not_equal,   less,       less_equal,  greater,
                              greater_equal, logical_and, logical_or, logical_xor, bitwise_and,
                              bitwise_or,    bitwise_xor, left_shift, right_shift};
static_assert(std::size(kBinary) == HF_RIGHT_SHIFT + 1);

using Reduction = Array (*)(const Array&, const Reduce&, const On&);
// In the order of hf_reduce_op.
constexpr Reduction kReductions[] = {sum, prod, mean, max, min, all, any};
static_assert(std::size(kReductions) == HF_ANY + 1);

// In the order of hf_update.
constexpr Update kUpdates[] = {Update::set, Update::add, Update::multiply, Update::max,
                               Update::min};
static_assert(std::size(kUpdates) == HF_UPDATE_MIN + 1);

}  // namespace
}  // namespace holdfast::c

using namespace holdfast::c;

hf_status hf_astype(hf_array* a, hf_dtype dtype, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::astype(value_of(a, "a"), dtype_of(dtype), on_of(stream));
  });
}

hf_status hf_unary(hf_unary_op op, hf_array* a, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return entry(kUnary, op, "hf_unary_op")(value_of(a, "a"), on_of(stream));
  });
}

hf_status hf_binary(hf_binary_op op, hf_term a, hf_term b, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return entry(kBinary, op, "hf_binary_op")(term_of(a, "a"), term_of(b, "b"), on_of(stream));
  });
}

hf_status hf_where(hf_array* condition, hf_term a, hf_term b, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::where(value_of(condition, "condition"), term_of(a, "a"), term_of(b, "b"),
                           on_of(stream));
  });
}

hf_status hf_clip(hf_array* a, hf_term low, hf_term high, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::clip(value_of(a, "a"), term_of(low, "low"), term_of(high, "high"),
                          on_of(stream));
  });
}

hf_status hf_reduce(hf_reduce_op op, hf_array* a, const int64_t* axes, size_t count,
                    int32_t keep_dims, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return entry(kReductions, op, "hf_reduce_op")(value_of(a, "a"),
                                                  reduce_of(axes, count, keep_dims), on_of(stream));
  });
}

hf_status hf_var(hf_array* a, const int64_t* axes, size_t count, int32_t keep_dims, double ddof,
                 hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::var(value_of(a, "a"), reduce_of(axes, count, keep_dims), ddof, on_of(stream));
  });
}

hf_status hf_std(hf_array* a, const int64_t* axes, size_t count, int32_t keep_dims, double ddof,
                 hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::std(value_of(a, "a"), reduce_of(axes, count, keep_dims), ddof, on_of(stream));
  });
}

hf_status hf_argmax(hf_array* a, const int64_t* axis, int32_t keep_dims, hf_stream* stream,
                    hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::argmax(value_of(a, "a"), optional_of(axis), keep_dims != 0, on_of(stream));
  });
}

hf_status hf_argmin(hf_array* a, const int64_t* axis, int32_t keep_dims, hf_stream* stream,
                    hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::argmin(value_of(a, "a"), optional_of(axis), keep_dims != 0, on_of(stream));
  });
}

hf_status hf_cumsum(hf_array* a, const int64_t* axis, int32_t reverse, int32_t exclusive,
                    hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::cumsum(value_of(a, "a"), optional_of(axis), {reverse != 0, exclusive == 0},
                            on_of(stream));
  });
}

hf_status hf_cumprod(hf_array* a, const int64_t* axis, int32_t reverse, int32_t exclusive,
                     hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::cumprod(value_of(a, "a"), optional_of(axis), {reverse != 0, exclusive == 0},
                             on_of(stream));
  });
}

hf_status hf_softmax(hf_array* a, int64_t axis, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::softmax(value_of(a, "a"), axis, on_of(stream)); });
}

hf_status hf_matmul(hf_array* a, hf_array* b, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::matmul(value_of(a, "a"), value_of(b, "b"), on_of(stream));
  });
}

hf_status hf_quantized_matmul(hf_array* x, hf_array* w, hf_array* scales, hf_array* biases,
                              int64_t group_size, int32_t transpose, hf_stream* stream,
                              hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::quantized_matmul(
        value_of(x, "x"), value_of(w, "w"), value_of(scales, "scales"), value_of(biases, "biases"),
        {.group_size = group_size, .transpose = transpose != 0}, on_of(stream));
  });
}

hf_status hf_quantize(hf_array* a, int64_t group_size, hf_stream* stream, hf_array** w,
                      hf_array** scales, hf_array** biases) {
  return call(__func__, [&] {
    needed(w, "w");
    needed(scales, "scales");
    needed(biases, "biases");
    const std::vector<holdfast::Array> made =
        holdfast::quantize(value_of(a, "a"), {.group_size = group_size}, on_of(stream));
    auto first = std::make_unique<hf_array>(made.at(0));
    auto second = std::make_unique<hf_array>(made.at(1));
    auto third = std::make_unique<hf_array>(made.at(2));
    *w = first.release();
    *scales = second.release();
    *biases = third.release();
  });
}

hf_status hf_concatenate(hf_array* const* arrays, size_t count, int64_t axis, hf_stream* stream,
                         hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::concatenate(arrays_of(arrays, count, "arrays"), axis, on_of(stream));
  });
}

hf_status hf_stack(hf_array* const* arrays, size_t count, int64_t axis, hf_stream* stream,
                   hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::stack(arrays_of(arrays, count, "arrays"), axis, on_of(stream));
  });
}

hf_status hf_roll(hf_array* a, int64_t shift, const int64_t* axis, hf_stream* stream,
                  hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::roll(value_of(a, "a"), shift, optional_of(axis), on_of(stream));
  });
}

hf_status hf_tile(hf_array* a, const int64_t* repetitions, size_t count, hf_stream* stream,
                  hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::tile(value_of(a, "a"), dims_of(repetitions, count, "repetitions").span(),
                          on_of(stream));
  });
}

hf_status hf_repeat(hf_array* a, int64_t repetitions, const int64_t* axis, hf_stream* stream,
                    hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::repeat(value_of(a, "a"), repetitions, optional_of(axis), on_of(stream));
  });
}

hf_status hf_take(hf_array* a, hf_array* indices, const int64_t* axis, hf_stream* stream,
                  hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::take(value_of(a, "a"), value_of(indices, "indices"), optional_of(axis),
                          on_of(stream));
  });
}

hf_status hf_take_along_axis(hf_array* a, hf_array* indices, int64_t axis, hf_stream* stream,
                             hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::take_along_axis(value_of(a, "a"), value_of(indices, "indices"), axis,
                                     on_of(stream));
  });
}

hf_status hf_scatter(hf_array* a, hf_array* indices, hf_array* updates, int64_t axis, hf_update how,
                     hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::scatter(value_of(a, "a"), value_of(indices, "indices"),
                             value_of(updates, "updates"), axis, entry(kUpdates, how, "hf_update"),
                             on_of(stream));
  });
}

hf_status hf_scatter_along_axis(hf_array* a, hf_array* indices, hf_array* updates, int64_t axis,
                                hf_update how, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::scatter_along_axis(value_of(a, "a"), value_of(indices, "indices"),
                                        value_of(updates, "updates"), axis,
                                        entry(kUpdates, how, "hf_update"), on_of(stream));
  });
}

hf_status hf_sort(hf_array* a, int64_t axis, int32_t descending, hf_stream* stream,
                  hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::sort(value_of(a, "a"), axis, descending != 0, on_of(stream));
  });
}

hf_status hf_argsort(hf_array* a, int64_t axis, int32_t descending, hf_stream* stream,
                     hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::argsort(value_of(a, "a"), axis, descending != 0, on_of(stream));
  });
}

hf_status hf_topk(hf_array* a, int64_t k, int64_t axis, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::topk(value_of(a, "a"), k, axis, on_of(stream)); });
}

hf_status hf_searchsorted(hf_array* sorted, hf_array* values, int32_t right, hf_stream* stream,
                          hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::searchsorted(value_of(sorted, "sorted"), value_of(values, "values"),
                                  right != 0 ? holdfast::Side::right : holdfast::Side::left,
                                  on_of(stream));
  });
}

hf_status hf_rms_norm(hf_array* x, hf_array* weight, float eps, hf_stream* stream,
                      hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::fast::rms_norm(value_of(x, "x"), optional_array(weight, "weight"), eps,
                                    on_of(stream));
  });
}

hf_status hf_layer_norm(hf_array* x, hf_array* weight, hf_array* bias, float eps, hf_stream* stream,
                        hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::fast::layer_norm(value_of(x, "x"), optional_array(weight, "weight"),
                                      optional_array(bias, "bias"), eps, on_of(stream));
  });
}

hf_status hf_rope(hf_array* x, int64_t dims, int32_t traditional, float base, float scale,
                  hf_term offset, hf_array* freqs, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::fast::rope(value_of(x, "x"), dims,
                                {.traditional = traditional != 0,
                                 .base = base,
                                 .scale = scale,
                                 .freqs = optional_array(freqs, "freqs")},
                                term_of(offset, "offset"), on_of(stream));
  });
}

hf_status hf_scaled_dot_product_attention(hf_array* queries, hf_array* keys, hf_array* values,
                                          float scale, hf_array* mask, int32_t causal,
                                          hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::fast::scaled_dot_product_attention(
        value_of(queries, "queries"), value_of(keys, "keys"), value_of(values, "values"), scale,
        {.array = optional_array(mask, "mask"), .causal = causal != 0}, on_of(stream));
  });
}
