#pragma once

#include "holdfast/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

// Operations. Each builds an array and computes nothing; evaluating the array does. What can be
// seen at once (shapes, dtypes, axes) is refused at once. Inputs may have any layout and are
// broadcast where that makes sense. Negative axes count from the end. Two-byte floats are computed
// in float32.

// Creation. HF_ERROR_USAGE for a value that the dtype cannot represent.
HF_API hf_status hf_zeros(const int64_t* shape, size_t ndim, hf_dtype dtype, hf_stream* stream,
                          hf_array** array);
HF_API hf_status hf_ones(const int64_t* shape, size_t ndim, hf_dtype dtype, hf_stream* stream,
                         hf_array** array);
HF_API hf_status hf_full(const int64_t* shape, size_t ndim, double value, hf_dtype dtype,
                         hf_stream* stream, hf_array** array);
// start, start + step, ... below stop (above, for a negative step).
HF_API hf_status hf_arange(double start, double stop, double step, hf_dtype dtype,
                           hf_stream* stream, hf_array** array);
// `count` numbers at equal distances; `stop` is the last one or, without `endpoint`, the one after.
HF_API hf_status hf_linspace(double start, double stop, int64_t count, int32_t endpoint,
                             hf_dtype dtype, hf_stream* stream, hf_array** array);
// The identity matrix.
HF_API hf_status hf_eye(int64_t n, hf_dtype dtype, hf_stream* stream, hf_array** array);
// Matrices with zeros above (tril) or below (triu) the diagonal k places above the main one.
HF_API hf_status hf_tril(hf_array* a, int64_t k, hf_stream* stream, hf_array** array);
HF_API hf_status hf_triu(hf_array* a, int64_t k, hf_stream* stream, hf_array** array);

// Random numbers are a function of key and position alone: the same on every device. float16,
// bfloat16, float32. `key` may be NULL: hf_random_next_key.
HF_API hf_status hf_random_uniform(const int64_t* shape, size_t ndim, hf_dtype dtype,
                                   const uint64_t* key, hf_stream* stream,
                                   hf_array** array);  // in [0, 1)
HF_API hf_status hf_random_normal(const int64_t* shape, size_t ndim, hf_dtype dtype,
                                  const uint64_t* key, hf_stream* stream, hf_array** array);
// The next key of the process. After hf_random_seed, the same sequence of calls gets the same keys.
HF_API hf_status hf_random_next_key(uint64_t* key);
HF_API hf_status hf_random_seed(uint64_t seed);
// Keys for distinct `i` are independent of `key` and of each other.
HF_API hf_status hf_random_split(uint64_t key, uint64_t i, uint64_t* split);

// Views show the same memory and compute nothing.

// A part of an axis, as in Python: start, stop (excluded) and step; HF_NONE where you give none. A
// step of zero is refused.
typedef struct hf_slice {
  int64_t start;
  int64_t stop;
  int64_t step;
} hf_slice;
#define HF_NONE INT64_MIN
// Axes beyond `count` are taken whole.
HF_API hf_status hf_slice_axes(hf_array* a, const hf_slice* slices, size_t count, hf_array** view);
// One position along an axis; the result lacks that axis.
HF_API hf_status hf_index(hf_array* a, int64_t at, int64_t axis, hf_array** view);
// Axes in a new order; reversed if `count` is zero.
HF_API hf_status hf_transpose(hf_array* a, const int64_t* axes, size_t count, hf_array** view);
HF_API hf_status hf_broadcast_to(hf_array* a, const int64_t* shape, size_t ndim, hf_array** view);
// Without these axes, which have length one; without every such axis if `count` is zero.
HF_API hf_status hf_squeeze(hf_array* a, const int64_t* axes, size_t count, hf_array** view);
// With new axes of length one, at these positions of the result.
HF_API hf_status hf_expand_dims(hf_array* a, const int64_t* axes, size_t count, hf_array** view);
// Reversed along these axes; along every one if `count` is zero.
HF_API hf_status hf_flip(hf_array* a, const int64_t* axes, size_t count, hf_array** view);
// The memory of the array's result through any layout that stays inside it; in elements.
HF_API hf_status hf_as_strided(hf_array* a, const int64_t* shape, const int64_t* strides,
                               size_t ndim, int64_t offset, hf_array** view);

// A view if a layout with that order of elements exists, otherwise a copy. One length may be -1.
HF_API hf_status hf_reshape(hf_array* a, const int64_t* shape, size_t ndim, hf_stream* stream,
                            hf_array** array);
// Another handle of the array if it is row-contiguous, otherwise a row-contiguous copy.
HF_API hf_status hf_contiguous(hf_array* a, hf_stream* stream, hf_array** array);
// A copy in its own memory.
HF_API hf_status hf_copy(hf_array* a, hf_stream* stream, hf_array** array);
// The array with the slice's elements replaced by `update`. This happens in its own memory if
// nobody else can see that once it is evaluated: release your handles first. Otherwise in a copy.
HF_API hf_status hf_slice_update(hf_array* a, hf_array* update, const hf_slice* slices,
                                 size_t count, hf_stream* stream, hf_array** array);
// Converting an out-of-range float to an integer gives any number.
HF_API hf_status hf_astype(hf_array* a, hf_dtype dtype, hf_stream* stream, hf_array** array);

// Operations of one array, elementwise.
typedef int32_t hf_unary_op;
enum {
  HF_NEGATIVE = 0,
  HF_ABS = 1,
  HF_SIGN = 2,
  HF_SQUARE = 3,
  HF_FLOOR = 4,  // integers stay as they are, also for ceil and round
  HF_CEIL = 5,
  HF_ROUND = 6,  // halves to even
  HF_LOGICAL_NOT = 7,
  HF_BITWISE_INVERT = 8,  // integers and bool
  HF_ISNAN = 9,
  HF_ISFINITE = 10,
  HF_ISINF = 11,
  HF_EXP = 12,  // from here on floats; others become float32 first
  HF_EXPM1 = 13,
  HF_LOG = 14,
  HF_LOG1P = 15,
  HF_LOG2 = 16,
  HF_SQRT = 17,
  HF_RSQRT = 18,
  HF_RECIPROCAL = 19,
  HF_SIN = 20,
  HF_COS = 21,
  HF_TAN = 22,
  HF_SINH = 23,
  HF_COSH = 24,
  HF_TANH = 25,
  HF_ARCSIN = 26,
  HF_ARCCOS = 27,
  HF_ARCTAN = 28,
  HF_ARCSINH = 29,
  HF_ARCCOSH = 30,
  HF_ARCTANH = 31,
  HF_ERF = 32,
  HF_SIGMOID = 33
};
HF_API hf_status hf_unary(hf_unary_op op, hf_array* a, hf_stream* stream, hf_array** array);

// An argument that is an array or a number: the array, unless it is NULL. A number takes the dtype
// of the arrays beside it, unless it is of a higher kind (a fraction with integers gives float32);
// of its own dtype only the kind counts. No array is made for it.
typedef struct hf_term {
  hf_array* array;
  hf_scalar number;
} hf_term;
static inline hf_term hf_of(hf_array* array) {
  // No dtype: a NULL that was to be an array is refused.
  const hf_term made = {array, {0, -1}};
  return made;
}
static inline hf_term hf_number(hf_scalar number) {
  const hf_term made = {NULL, number};
  return made;
}

// Operations of two arrays, elementwise.
typedef int32_t hf_binary_op;
enum {
  HF_ADD = 0,
  HF_SUBTRACT = 1,
  HF_MULTIPLY = 2,
  HF_DIVIDE = 3,        // of integers: float32
  HF_FLOOR_DIVIDE = 4,  // rounded down; of integers, a division by zero gives zero
  HF_REMAINDER = 5,
  HF_POWER = 6,
  HF_MAXIMUM = 7,  // NaN wins
  HF_MINIMUM = 8,
  HF_ARCTAN2 = 9,
  HF_EQUAL = 10,  // these give bool
  HF_NOT_EQUAL = 11,
  HF_LESS = 12,
  HF_LESS_EQUAL = 13,
  HF_GREATER = 14,
  HF_GREATER_EQUAL = 15,
  HF_LOGICAL_AND = 16,
  HF_LOGICAL_OR = 17,
  HF_LOGICAL_XOR = 18,
  HF_BITWISE_AND = 19,  // these take integers and bool; shifts, integers alone
  HF_BITWISE_OR = 20,
  HF_BITWISE_XOR = 21,
  HF_LEFT_SHIFT = 22,
  HF_RIGHT_SHIFT = 23
};
HF_API hf_status hf_binary(hf_binary_op op, hf_term a, hf_term b, hf_stream* stream,
                           hf_array** array);
// a where the condition is not zero, and b elsewhere.
HF_API hf_status hf_where(hf_array* condition, hf_term a, hf_term b, hf_stream* stream,
                          hf_array** array);
HF_API hf_status hf_clip(hf_array* a, hf_term low, hf_term high, hf_stream* stream,
                         hf_array** array);

// Reductions, over all axes if `count` is zero. With `keep_dims`, reduced axes stay, with length
// one. Sums and products of small integers have 32 bits.
typedef int32_t hf_reduce_op;
enum { HF_SUM = 0, HF_PROD = 1, HF_MEAN = 2, HF_MAX = 3, HF_MIN = 4, HF_ALL = 5, HF_ANY = 6 };
HF_API hf_status hf_reduce(hf_reduce_op op, hf_array* a, const int64_t* axes, size_t count,
                           int32_t keep_dims, hf_stream* stream, hf_array** array);
// The mean of squared distances from the mean, with the number of elements less `ddof` as divisor;
// and its root.
HF_API hf_status hf_var(hf_array* a, const int64_t* axes, size_t count, int32_t keep_dims,
                        double ddof, hf_stream* stream, hf_array** array);
HF_API hf_status hf_std(hf_array* a, const int64_t* axes, size_t count, int32_t keep_dims,
                        double ddof, hf_stream* stream, hf_array** array);
// The position of the largest or smallest element, as uint32. `axis` may be NULL: the position in
// the flattened array.
HF_API hf_status hf_argmax(hf_array* a, const int64_t* axis, int32_t keep_dims, hf_stream* stream,
                           hf_array** array);
HF_API hf_status hf_argmin(hf_array* a, const int64_t* axis, int32_t keep_dims, hf_stream* stream,
                           hf_array** array);
// The sum or product up to each position. `axis` may be NULL: of the flattened array. With
// `reverse`, from the end; with `exclusive`, without the element itself.
HF_API hf_status hf_cumsum(hf_array* a, const int64_t* axis, int32_t reverse, int32_t exclusive,
                           hf_stream* stream, hf_array** array);
HF_API hf_status hf_cumprod(hf_array* a, const int64_t* axis, int32_t reverse, int32_t exclusive,
                            hf_stream* stream, hf_array** array);

// exp(a - max) / sum, over one axis.
HF_API hf_status hf_softmax(hf_array* a, int64_t axis, hf_stream* stream, hf_array** array);
// Matrix product over the last two axes, as in NumPy. Floats only.
HF_API hf_status hf_matmul(hf_array* a, hf_array* b, hf_stream* stream, hf_array** array);
// x[..., K] times 4-bit weights as hf_quantize makes them of an array[N, K]: w is uint32[N, K/8],
// weight (n, k) is scales[n, k / group_size] * q + biases[n, k / group_size]. Without `transpose`,
// w is [K, N/8]. group_size: 32, 64 or 128.
HF_API hf_status hf_quantized_matmul(hf_array* x, hf_array* w, hf_array* scales, hf_array* biases,
                                     int64_t group_size, int32_t transpose, hf_stream* stream,
                                     hf_array** array);
HF_API hf_status hf_quantize(hf_array* a, int64_t group_size, hf_stream* stream, hf_array** w,
                             hf_array** scales, hf_array** biases);

HF_API hf_status hf_concatenate(hf_array* const* arrays, size_t count, int64_t axis,
                                hf_stream* stream, hf_array** array);
HF_API hf_status hf_stack(hf_array* const* arrays, size_t count, int64_t axis, hf_stream* stream,
                          hf_array** array);
// Elements moved along an axis by `shift` places, round the end. `axis` may be NULL: in the
// flattened array.
HF_API hf_status hf_roll(hf_array* a, int64_t shift, const int64_t* axis, hf_stream* stream,
                         hf_array** array);
// The whole array so many times along each axis.
HF_API hf_status hf_tile(hf_array* a, const int64_t* repetitions, size_t count, hf_stream* stream,
                         hf_array** array);
// Each element so many times. `axis` may be NULL: of the flattened array.
HF_API hf_status hf_repeat(hf_array* a, int64_t repetitions, const int64_t* axis, hf_stream* stream,
                           hf_array** array);

// Elements along an axis at integer positions, whose shape takes the place of the axis. Negative
// positions count from the end; positions out of range give zero (NaN for floats). `axis` may be
// NULL: from the flattened array.
HF_API hf_status hf_take(hf_array* a, hf_array* indices, const int64_t* axis, hf_stream* stream,
                         hf_array** array);
// The same with one position for each element of the result.
HF_API hf_status hf_take_along_axis(hf_array* a, hf_array* indices, int64_t axis, hf_stream* stream,
                                    hf_array** array);
// How an update changes the element at its position.
typedef int32_t hf_update;
enum {
  HF_UPDATE_SET = 0,
  HF_UPDATE_ADD = 1,
  HF_UPDATE_MULTIPLY = 2,
  HF_UPDATE_MAX = 3,
  HF_UPDATE_MIN = 4
};
// The counterparts of hf_take and hf_take_along_axis: the array with these elements updated, as if
// one after another. In its own memory or in a copy, as hf_slice_update.
HF_API hf_status hf_scatter(hf_array* a, hf_array* indices, hf_array* updates, int64_t axis,
                            hf_update how, hf_stream* stream, hf_array** array);
HF_API hf_status hf_scatter_along_axis(hf_array* a, hf_array* indices, hf_array* updates,
                                       int64_t axis, hf_update how, hf_stream* stream,
                                       hf_array** array);

// Stable, with NaN last.
HF_API hf_status hf_sort(hf_array* a, int64_t axis, int32_t descending, hf_stream* stream,
                         hf_array** array);
// The positions of the sorted elements, as uint32.
HF_API hf_status hf_argsort(hf_array* a, int64_t axis, int32_t descending, hf_stream* stream,
                            hf_array** array);
// The k largest elements, the largest first.
HF_API hf_status hf_topk(hf_array* a, int64_t k, int64_t axis, hf_stream* stream, hf_array** array);
// Where to insert values so that `sorted` stays sorted: the first such position or, with `right`,
// the last, as uint32.
HF_API hf_status hf_searchsorted(hf_array* sorted, hf_array* values, int32_t right,
                                 hf_stream* stream, hf_array** array);

// What models spend their time in, as in MLX's `fast`. Floats only. `weight` and `bias` may be
// NULL.
HF_API hf_status hf_rms_norm(hf_array* x, hf_array* weight, float eps, hf_stream* stream,
                             hf_array** array);
HF_API hf_status hf_layer_norm(hf_array* x, hf_array* weight, hf_array* bias, float eps,
                               hf_stream* stream, hf_array** array);
// Rotates pairs among the first `dims` elements of each row of x[..., positions, elements]. Pair i
// of position p turns by (p + offset) * scale * base^(-2i / dims); if `freqs` is not NULL, its 1 /
// freqs[i] takes the place of the power. `traditional`: pairs are neighbours; otherwise an element
// and that dims / 2 after it.
HF_API hf_status hf_rope(hf_array* x, int64_t dims, int32_t traditional, float base, float scale,
                         hf_term offset, hf_array* freqs, hf_stream* stream, hf_array** array);
// softmax(queries * scale @ keys^T + mask) @ values, for [batch, heads, length, width]. `mask` may
// be NULL; of bool, it is true where a query attends to a key. `causal`: a query attends to no keys
// after it.
HF_API hf_status hf_scaled_dot_product_attention(hf_array* queries, hf_array* keys,
                                                 hf_array* values, float scale, hf_array* mask,
                                                 int32_t causal, hf_stream* stream,
                                                 hf_array** array);

#ifdef __cplusplus
}
#endif
