#include <math.h>

#include "check.h"

static const int64_t two_by_three[] = {2, 3};
static const int64_t zero_axis = 0;

static void creation(void) {
  hf_array* a = NULL;
  OK(hf_zeros(two_by_three, 2, HF_INT8, NULL, &a));
  SHOWS(a, "array([[0, 0, 0], [0, 0, 0]], dtype=int8)");
  OK(hf_ones(NULL, 0, HF_FLOAT32, NULL, &a));
  SHOWS(a, "array(1, dtype=float32)");
  OK(hf_full(two_by_three, 1, 7, HF_UINT16, NULL, &a));
  SHOWS(a, "array([7, 7], dtype=uint16)");
  OK(hf_arange(5, 0, -2, HF_INT32, NULL, &a));
  SHOWS(a, "array([5, 3, 1], dtype=int32)");
  OK(hf_linspace(0, 1, 4, 0, HF_FLOAT32, NULL, &a));
  SHOWS(a, "array([0, 0.25, 0.5, 0.75], dtype=float32)");
  OK(hf_linspace(0, 1, 3, 1, HF_FLOAT32, NULL, &a));
  SHOWS(a, "array([0, 0.5, 1], dtype=float32)");
  OK(hf_eye(2, HF_INT32, NULL, &a));
  SHOWS(a, "array([[1, 0], [0, 1]], dtype=int32)");
  hf_array* all = counted(HF_INT32, two_by_three, 2);
  OK(hf_tril(all, 0, NULL, &a));
  SHOWS(a, "array([[0, 0, 0], [3, 4, 0]], dtype=int32)");
  OK(hf_triu(all, 1, NULL, &a));
  SHOWS(a, "array([[0, 1, 2], [0, 0, 5]], dtype=int32)");
  a = UNTOUCHED(hf_array);
  REFUSED(hf_full(NULL, 0, 1.5, HF_INT32, NULL, &a), HF_ERROR_USAGE, "1.5");
  REFUSED(hf_arange(0, 1, 0, HF_INT32, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_linspace(0, 1, -1, 1, HF_INT32, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_eye(-1, HF_INT32, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_ones(two_by_three, 2, 13, NULL, &a), HF_ERROR_USAGE, "13 is no dtype");
  REFUSED(hf_tril(NULL, 0, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_triu(NULL, 0, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(all);
}

static void random_numbers_are_functions_of_their_key(void) {
  uint64_t key = 0, split = 0, again = 0;
  OK(hf_random_seed(5));
  OK(hf_random_next_key(&key));
  OK(hf_random_seed(5));
  OK(hf_random_next_key(&again));
  CHECK(key == again);
  OK(hf_random_split(key, 3, &split));
  CHECK(split != key);
  float values[2][6];
  for (int i = 0; i < 2; ++i) {
    hf_array* a = NULL;
    OK(hf_random_uniform(two_by_three, 2, HF_FLOAT32, &split, NULL, &a));
    OK(hf_array_read(a, HF_FOREVER, values[i], sizeof values[i]));
    hf_array_release(a);
  }
  CHECK(memcmp(values[0], values[1], sizeof values[0]) == 0);
  hf_array* a = NULL;
  OK(hf_random_uniform(two_by_three, 2, HF_FLOAT32, NULL, NULL, &a));
  hf_array_release(a);
  OK(hf_random_normal(two_by_three, 2, HF_FLOAT32, NULL, NULL, &a));
  hf_array_release(a);
  OK(hf_random_normal(two_by_three, 2, HF_FLOAT32, &key, NULL, &a));
  OK(hf_array_read(a, HF_FOREVER, values[1], sizeof values[1]));
  CHECK(memcmp(values[0], values[1], sizeof values[0]) != 0);
  hf_array_release(a);
  a = UNTOUCHED(hf_array);
  REFUSED(hf_random_uniform(two_by_three, 2, HF_INT32, &key, NULL, &a), HF_ERROR_USAGE, "int32");
  REFUSED(hf_random_normal(two_by_three, 2, HF_INT32, NULL, NULL, &a), HF_ERROR_USAGE, "int32");
  REFUSED(hf_random_next_key(NULL), HF_ERROR_USAGE, "key is NULL");
  REFUSED(hf_random_split(1, 1, NULL), HF_ERROR_USAGE, "split is NULL");
  CHECK(a == UNTOUCHED(hf_array));
}

static void views(void) {
  hf_array* a = counted(HF_INT32, two_by_three, 2);
  hf_array* v = NULL;
  const hf_slice backwards[] = {{HF_NONE, HF_NONE, 1}, {HF_NONE, HF_NONE, -2}};
  OK(hf_slice_axes(a, backwards, 2, &v));
  SHOWS(v, "array([[2, 0], [5, 3]], dtype=int32)");
  const hf_slice part[] = {{1, HF_NONE, HF_NONE}};
  OK(hf_slice_axes(a, part, 1, &v));
  SHOWS(v, "array([[3, 4, 5]], dtype=int32)");
  OK(hf_index(a, -1, 1, &v));
  SHOWS(v, "array([2, 5], dtype=int32)");
  const int64_t swapped[] = {1, 0};
  OK(hf_transpose(a, swapped, 2, &v));
  int64_t strides[2] = {0};
  int32_t rows = 1;
  OK(hf_array_strides(v, 2, strides));
  OK(hf_array_is_row_contiguous(v, &rows));
  CHECK(strides[0] == 1 && strides[1] == 3 && rows == 0);
  hf_array* c = NULL;
  OK(hf_contiguous(v, NULL, &c));
  hf_array_release(v);
  SHOWS(c, "array([[0, 3], [1, 4], [2, 5]], dtype=int32)");
  const int64_t wide[] = {2, 2, 3};
  OK(hf_broadcast_to(a, wide, 3, &v));
  SHOWS(v, "array([[[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]]], dtype=int32)");
  const int64_t ends[] = {0, -1};
  OK(hf_expand_dims(a, ends, 2, &v));
  size_t ndim = 0;
  OK(hf_array_ndim(v, &ndim));
  CHECK(ndim == 4);
  hf_array* less = NULL;
  OK(hf_squeeze(v, &zero_axis, 1, &less));
  OK(hf_array_ndim(less, &ndim));
  CHECK(ndim == 3);
  hf_array_release(less);
  OK(hf_squeeze(v, NULL, 0, &less));
  OK(hf_array_ndim(less, &ndim));
  CHECK(ndim == 2);
  hf_array_release(less);
  hf_array_release(v);
  OK(hf_flip(a, &zero_axis, 1, &v));
  SHOWS(v, "array([[3, 4, 5], [0, 1, 2]], dtype=int32)");
  const int64_t diagonal_shape[] = {2}, diagonal[] = {4};
  OK(hf_as_strided(a, diagonal_shape, diagonal, 1, 1, &v));
  SHOWS(v, "array([1, 5], dtype=int32)");
  const int64_t rest[] = {3, -1};
  OK(hf_reshape(a, rest, 2, NULL, &v));
  SHOWS(v, "array([[0, 1], [2, 3], [4, 5]], dtype=int32)");
  OK(hf_copy(a, NULL, &v));
  SHOWS(v, "array([[0, 1, 2], [3, 4, 5]], dtype=int32)");

  v = UNTOUCHED(hf_array);
  const hf_slice still[] = {{HF_NONE, HF_NONE, 0}};
  REFUSED(hf_slice_axes(a, still, 1, &v), HF_ERROR_USAGE, "step");
  REFUSED(hf_slice_axes(a, still, 99, &v), HF_ERROR_USAGE, "99");
  REFUSED(hf_slice_axes(a, NULL, 1, &v), HF_ERROR_USAGE, "slices is NULL");
  const hf_slice extreme[] = {{INT64_MAX, INT64_MIN + 1, INT64_MIN + 1}};
  OK(hf_slice_axes(a, extreme, 1, &less));
  hf_array_release(less);
  REFUSED(hf_index(a, 5, 0, &v), HF_ERROR_USAGE, "5");
  REFUSED(hf_index(a, 0, 5, &v), HF_ERROR_USAGE, "5");
  REFUSED(hf_index(a, INT64_MIN, INT64_MIN, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_transpose(a, &zero_axis, 1, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_broadcast_to(a, wide, 1, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_squeeze(a, &zero_axis, 1, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_expand_dims(a, wide, 3, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_expand_dims(a, wide, 9, &v), HF_ERROR_USAGE, "9");
  REFUSED(hf_flip(a, wide, 3, &v), HF_ERROR_USAGE, "");
  const int64_t far[] = {INT64_MAX};
  REFUSED(hf_as_strided(a, diagonal_shape, far, 1, 0, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_as_strided(a, diagonal_shape, diagonal, 1, INT64_MAX, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_as_strided(a, diagonal_shape, NULL, 1, 0, &v), HF_ERROR_USAGE, "strides is NULL");
  REFUSED(hf_reshape(a, wide, 3, NULL, &v), HF_ERROR_USAGE, "");
  REFUSED(hf_contiguous(NULL, NULL, &v), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_copy(NULL, NULL, &v), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_copy(a, NULL, NULL), HF_ERROR_USAGE, "NULL");
  CHECK(v == UNTOUCHED(hf_array));
  hf_array_release(a);
}

static void updates_leave_the_array_that_was_given(void) {
  hf_array* a = counted(HF_FLOAT32, two_by_three, 2);
  const float ten[] = {10};
  hf_array* update = floats(ten, 1);
  const hf_slice last[] = {{HF_NONE, HF_NONE, 1}, {-1, HF_NONE, 1}};
  hf_array* made = NULL;
  OK(hf_slice_update(a, update, last, 2, NULL, &made));
  SHOWS(made, "array([[0, 1, 10], [3, 4, 10]], dtype=float32)");
  const int64_t at[] = {1, 0, 1};
  const int64_t three[] = {3};
  hf_array* indices = NULL;
  OK(hf_array_create(HF_INT64, three, 1, at, sizeof at, NULL, &indices));
  OK(hf_take(a, indices, NULL, NULL, &made));
  SHOWS(made, "array([1, 0, 1], dtype=float32)");
  OK(hf_take(a, indices, &zero_axis, NULL, &made));
  SHOWS(made, "array([[3, 4, 5], [0, 1, 2], [3, 4, 5]], dtype=float32)");
  const char* const results[] = {"array([[10, 10, 10], [10, 10, 10]], dtype=float32)",
                                 "array([[10, 11, 12], [23, 24, 25]], dtype=float32)",
                                 "array([[0, 10, 20], [300, 400, 500]], dtype=float32)",
                                 "array([[10, 10, 10], [10, 10, 10]], dtype=float32)",
                                 "array([[0, 1, 2], [3, 4, 5]], dtype=float32)"};
  for (hf_update how = HF_UPDATE_SET; how <= HF_UPDATE_MIN; ++how) {
    OK(hf_scatter(a, indices, update, 0, how, NULL, &made));
    SHOWS(made, results[how]);
  }
  const int64_t row[] = {1, 3};
  hf_array* one_each = NULL;
  OK(hf_reshape(indices, row, 2, NULL, &one_each));
  OK(hf_take_along_axis(a, one_each, 0, NULL, &made));
  SHOWS(made, "array([[3, 1, 5]], dtype=float32)");
  OK(hf_scatter_along_axis(a, one_each, update, 0, HF_UPDATE_ADD, NULL, &made));
  SHOWS(made, "array([[0, 11, 2], [13, 4, 15]], dtype=float32)");
  made = UNTOUCHED(hf_array);
  REFUSED(hf_scatter(a, indices, update, 0, 5, NULL, &made), HF_ERROR_USAGE, "5 is no hf_update");
  REFUSED(hf_scatter(a, indices, update, 9, 0, NULL, &made), HF_ERROR_USAGE, "9");
  REFUSED(hf_scatter(a, NULL, update, 0, 0, NULL, &made), HF_ERROR_USAGE, "indices is NULL");
  REFUSED(hf_scatter_along_axis(a, one_each, update, 0, -1, NULL, &made), HF_ERROR_USAGE,
          "-1 is no hf_update");
  REFUSED(hf_take(a, update, NULL, NULL, &made), HF_ERROR_USAGE, "float32");
  REFUSED(hf_take_along_axis(a, indices, 0, NULL, &made), HF_ERROR_USAGE, "");
  REFUSED(hf_slice_update(a, NULL, last, 2, NULL, &made), HF_ERROR_USAGE, "update is NULL");
  CHECK(made == UNTOUCHED(hf_array));
  hf_array_release(one_each);
  hf_array_release(indices);
  hf_array_release(update);
  SHOWS(a, "array([[0, 1, 2], [3, 4, 5]], dtype=float32)");
}

static float at_half(float (*f)(float)) { return f(0.5F); }
static float square_f(float x) { return x * x; }
static float rsqrt_f(float x) { return 1 / sqrtf(x); }
static float reciprocal_f(float x) { return 1 / x; }
static float sigmoid_f(float x) { return 1 / (1 + expf(-x)); }
static float negative_f(float x) { return -x; }
static float sign_f(float x) { return x > 0 ? 1 : -1; }
static float round_f(float x) { return x == 0.5F ? 0 : x; }

// Every code means what its name says.
static void every_unary_operation(void) {
  float (*const functions[])(float) = {
      negative_f, fabsf,        sign_f, square_f, floorf, ceilf, round_f,  NULL,  NULL,
      NULL,       NULL,         NULL,   expf,     expm1f, logf,  log1pf,   log2f, sqrtf,
      rsqrt_f,    reciprocal_f, sinf,   cosf,     tanf,   sinhf, coshf,    tanhf, asinf,
      acosf,      atanf,        asinhf, NULL,     atanhf, erff,  sigmoid_f};
  const int64_t shape[] = {1};
  hf_array* half = NULL;
  OK(hf_full(shape, 1, 0.5, HF_FLOAT32, NULL, &half));
  hf_array* made[HF_SIGMOID + 1];
  for (hf_unary_op op = HF_NEGATIVE; op <= HF_SIGMOID; ++op) {
    // bitwise_invert takes no floats: see below.
    if (op == HF_BITWISE_INVERT) {
      REFUSED(hf_unary(op, half, NULL, &made[op]), HF_ERROR_USAGE, "");
      OK(hf_ones(shape, 1, HF_INT32, NULL, &made[op]));
    } else {
      OK(hf_unary(op, half, NULL, &made[op]));
    }
  }
  OK(hf_eval(made, HF_SIGMOID + 1, HF_FOREVER));
  for (hf_unary_op op = HF_NEGATIVE; op <= HF_SIGMOID; ++op) {
    if (functions[op] != NULL) {
      float value = 0;
      OK(hf_array_read(made[op], HF_FOREVER, &value, sizeof value));
      const float wanted = at_half(functions[op]);
      if (!(fabsf(value - wanted) <= 1e-5F * (1 + fabsf(wanted)))) {
        fprintf(stderr, "operation %d gives %g, not %g\n", op, (double)value, (double)wanted);
        CHECK(0);
      }
    }
    if (op != HF_LOGICAL_NOT && op != HF_ISNAN && op != HF_ISFINITE && op != HF_ISINF &&
        op != HF_ARCCOSH) {
      hf_array_release(made[op]);
    }
  }
  SHOWS(made[HF_LOGICAL_NOT], "array([False], dtype=bool)");
  SHOWS(made[HF_ISNAN], "array([False], dtype=bool)");
  SHOWS(made[HF_ISFINITE], "array([True], dtype=bool)");
  SHOWS(made[HF_ISINF], "array([False], dtype=bool)");
  float value = 0;
  OK(hf_array_read(made[HF_ARCCOSH], HF_FOREVER, &value, sizeof value));
  CHECK(isnan(value));
  hf_array* a = NULL;
  OK(hf_unary(HF_ISNAN, made[HF_ARCCOSH], NULL, &a));
  SHOWS(a, "array([True], dtype=bool)");
  hf_array_release(made[HF_ARCCOSH]);
  hf_array* number = NULL;
  OK(hf_full(shape, 1, 5, HF_INT32, NULL, &number));
  OK(hf_unary(HF_BITWISE_INVERT, number, NULL, &a));
  SHOWS(a, "array([-6], dtype=int32)");
  hf_array_release(number);
  a = UNTOUCHED(hf_array);
  REFUSED(hf_unary(HF_SIGMOID + 1, half, NULL, &a), HF_ERROR_USAGE, "34 is no hf_unary_op");
  REFUSED(hf_unary(-1, half, NULL, &a), HF_ERROR_USAGE, "-1 is no hf_unary_op");
  REFUSED(hf_unary(HF_ABS, NULL, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(half);
}

static void every_binary_operation(void) {
  // Of 6 and 4.
  const char* const results[] = {"array([10], dtype=int32)",   "array([2], dtype=int32)",
                                 "array([24], dtype=int32)",   "array([1.5], dtype=float32)",
                                 "array([1], dtype=int32)",    "array([2], dtype=int32)",
                                 "array([1296], dtype=int32)", "array([6], dtype=int32)",
                                 "array([4], dtype=int32)",    NULL,
                                 "array([False], dtype=bool)", "array([True], dtype=bool)",
                                 "array([False], dtype=bool)", "array([False], dtype=bool)",
                                 "array([True], dtype=bool)",  "array([True], dtype=bool)",
                                 "array([True], dtype=bool)",  "array([True], dtype=bool)",
                                 "array([False], dtype=bool)", "array([4], dtype=int32)",
                                 "array([6], dtype=int32)",    "array([2], dtype=int32)",
                                 "array([96], dtype=int32)",   "array([0], dtype=int32)"};
  const int64_t shape[] = {1};
  hf_array *six = NULL, *four = NULL;
  OK(hf_full(shape, 1, 6, HF_INT32, NULL, &six));
  OK(hf_full(shape, 1, 4, HF_INT32, NULL, &four));
  hf_array* made[HF_RIGHT_SHIFT + 1];
  for (hf_binary_op op = HF_ADD; op <= HF_RIGHT_SHIFT; ++op) {
    OK(hf_binary(op, hf_of(six), hf_of(four), NULL, &made[op]));
  }
  OK(hf_eval(made, HF_RIGHT_SHIFT + 1, HF_FOREVER));
  for (hf_binary_op op = HF_ADD; op <= HF_RIGHT_SHIFT; ++op) {
    if (results[op] != NULL) {
      SHOWS(made[op], results[op]);
    } else {
      float angle = 0;
      OK(hf_array_read(made[op], HF_FOREVER, &angle, sizeof angle));
      CHECK(fabsf(angle - atan2f(6, 4)) < 1e-5F);
      hf_array_release(made[op]);
    }
  }
  hf_array* a = UNTOUCHED(hf_array);
  REFUSED(hf_binary(24, hf_of(six), hf_of(four), NULL, &a), HF_ERROR_USAGE,
          "24 is no hf_binary_op");
  REFUSED(hf_binary(INT32_MIN, hf_of(six), hf_of(four), NULL, &a), HF_ERROR_USAGE, "is no");
  REFUSED(hf_binary(HF_ADD, hf_of(NULL), hf_of(four), NULL, &a), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_binary(HF_ADD, hf_of(six), hf_of(NULL), NULL, &a), HF_ERROR_USAGE, "b is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(six);
  hf_array_release(four);
}

static void numbers_take_the_dtype_of_arrays_beside_them(void) {
  const int64_t shape[] = {2};
  hf_array *x = NULL, *a = NULL;
  OK(hf_full(shape, 1, 3, HF_FLOAT16, NULL, &x));
  const uint64_t half_two = 0x4000, bfloat_two = 0x4000;
  const hf_scalar twos[] = {hf_int32(2),    hf_uint32(2),           hf_int64(2),
                            hf_uint64(2),   hf_float32(2),          hf_float64(2),
                            {2, HF_INT8},   {2, HF_UINT8},          {2, HF_INT16},
                            {2, HF_UINT16}, {half_two, HF_FLOAT16}, {bfloat_two, HF_BFLOAT16}};
  for (size_t i = 0; i < sizeof twos / sizeof twos[0]; ++i) {
    OK(hf_binary(HF_MULTIPLY, hf_of(x), hf_number(twos[i]), NULL, &a));
    SHOWS(a, "array([6, 6], dtype=float16)");
  }
  OK(hf_binary(HF_MULTIPLY, hf_of(x), hf_number(hf_bool(1)), NULL, &a));
  SHOWS(a, "array([3, 3], dtype=float16)");
  // The bytes above an element's own do not count.
  const hf_scalar minus = {(uint64_t)-1, HF_INT8};
  OK(hf_binary(HF_ADD, hf_of(x), hf_number(minus), NULL, &a));
  SHOWS(a, "array([2, 2], dtype=float16)");
  OK(hf_clip(x, hf_number(hf_int32(0)), hf_number(hf_int32(1)), NULL, &a));
  SHOWS(a, "array([1, 1], dtype=float16)");
  hf_array* condition = NULL;
  OK(hf_arange(0, 2, 1, HF_INT32, NULL, &condition));
  OK(hf_where(condition, hf_of(x), hf_number(hf_float32(-1)), NULL, &a));
  SHOWS(a, "array([-1, 3], dtype=float16)");
  OK(hf_astype(x, HF_INT64, NULL, &a));
  SHOWS(a, "array([3, 3], dtype=int64)");
  a = UNTOUCHED(hf_array);
  const hf_scalar wrong = {0, 64};
  REFUSED(hf_binary(HF_ADD, hf_of(x), hf_number(wrong), NULL, &a), HF_ERROR_USAGE,
          "64 is no dtype");
  REFUSED(hf_where(NULL, hf_of(x), hf_of(x), NULL, &a), HF_ERROR_USAGE, "condition is NULL");
  REFUSED(hf_where(condition, hf_of(NULL), hf_of(x), NULL, &a), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_clip(NULL, hf_of(x), hf_of(x), NULL, &a), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_clip(x, hf_of(NULL), hf_of(x), NULL, &a), HF_ERROR_USAGE, "low is NULL");
  REFUSED(hf_astype(x, 13, NULL, &a), HF_ERROR_USAGE, "13 is no dtype");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(condition);
  hf_array_release(x);
}

static void reductions_and_scans(void) {
  hf_array* x = counted(HF_INT32, two_by_three, 2);
  hf_array* a = NULL;
  const char* const results[] = {
      "array([3, 5, 7], dtype=int32)",         "array([0, 4, 10], dtype=int32)",
      "array([1.5, 2.5, 3.5], dtype=float32)", "array([3, 4, 5], dtype=int32)",
      "array([0, 1, 2], dtype=int32)",         "array([False, True, True], dtype=bool)",
      "array([True, True, True], dtype=bool)"};
  for (hf_reduce_op op = HF_SUM; op <= HF_ANY; ++op) {
    OK(hf_reduce(op, x, &zero_axis, 1, 0, NULL, &a));
    SHOWS(a, results[op]);
  }
  OK(hf_reduce(HF_SUM, x, NULL, 0, 1, NULL, &a));
  SHOWS(a, "array([[15]], dtype=int32)");
  OK(hf_var(x, &zero_axis, 1, 0, 0, NULL, &a));
  SHOWS(a, "array([2.25, 2.25, 2.25], dtype=float32)");
  OK(hf_std(x, &zero_axis, 1, 0, 0, NULL, &a));
  SHOWS(a, "array([1.5, 1.5, 1.5], dtype=float32)");
  OK(hf_argmax(x, NULL, 0, NULL, &a));
  SHOWS(a, "array(5, dtype=uint32)");
  OK(hf_argmin(x, &zero_axis, 1, NULL, &a));
  SHOWS(a, "array([[0, 0, 0]], dtype=uint32)");
  OK(hf_cumsum(x, NULL, 0, 0, NULL, &a));
  SHOWS(a, "array([0, 1, 3, 6, 10, 15], dtype=int32)");
  OK(hf_cumsum(x, &zero_axis, 1, 1, NULL, &a));
  SHOWS(a, "array([[3, 4, 5], [0, 0, 0]], dtype=int32)");
  OK(hf_cumprod(x, &zero_axis, 0, 0, NULL, &a));
  SHOWS(a, "array([[0, 1, 2], [0, 4, 10]], dtype=int32)");
  a = UNTOUCHED(hf_array);
  const int64_t far = 7;
  REFUSED(hf_reduce(7, x, NULL, 0, 0, NULL, &a), HF_ERROR_USAGE, "7 is no hf_reduce_op");
  REFUSED(hf_reduce(HF_SUM, x, &far, 1, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_reduce(HF_SUM, x, NULL, 2, 0, NULL, &a), HF_ERROR_USAGE, "axes is NULL");
  REFUSED(hf_reduce(HF_SUM, NULL, NULL, 0, 0, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_var(x, &far, 1, 0, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_std(x, &far, 1, 0, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_argmax(x, &far, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_argmin(x, &far, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_cumsum(x, &far, 0, 0, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_cumprod(NULL, NULL, 0, 0, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(x);
}

static void rearrangements_and_sorting(void) {
  const float values[] = {3, 1, 2};
  hf_array* x = floats(values, 3);
  hf_array* pair[] = {x, x};
  hf_array* a = NULL;
  OK(hf_concatenate(pair, 2, 0, NULL, &a));
  SHOWS(a, "array([3, 1, 2, 3, 1, 2], dtype=float32)");
  OK(hf_stack(pair, 2, 1, NULL, &a));
  SHOWS(a, "array([[3, 3], [1, 1], [2, 2]], dtype=float32)");
  OK(hf_roll(x, 1, NULL, NULL, &a));
  SHOWS(a, "array([2, 3, 1], dtype=float32)");
  OK(hf_roll(x, -1, &zero_axis, NULL, &a));
  SHOWS(a, "array([1, 2, 3], dtype=float32)");
  const int64_t twice[] = {2, 1};
  OK(hf_tile(x, twice, 2, NULL, &a));
  SHOWS(a, "array([[3, 1, 2], [3, 1, 2]], dtype=float32)");
  OK(hf_repeat(x, 2, NULL, NULL, &a));
  SHOWS(a, "array([3, 3, 1, 1, 2, 2], dtype=float32)");
  hf_array* sorted = NULL;
  OK(hf_sort(x, 0, 0, NULL, &sorted));
  OK(hf_searchsorted(sorted, x, 0, NULL, &a));
  SHOWS(a, "array([2, 0, 1], dtype=uint32)");
  OK(hf_searchsorted(sorted, x, 1, NULL, &a));
  SHOWS(a, "array([3, 1, 2], dtype=uint32)");
  SHOWS(sorted, "array([1, 2, 3], dtype=float32)");
  OK(hf_argsort(x, -1, 1, NULL, &a));
  SHOWS(a, "array([0, 2, 1], dtype=uint32)");
  OK(hf_topk(x, 2, -1, NULL, &a));
  SHOWS(a, "array([3, 2], dtype=float32)");
  a = UNTOUCHED(hf_array);
  REFUSED(hf_concatenate(NULL, 0, 0, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_concatenate(pair, 2, 3, NULL, &a), HF_ERROR_USAGE, "3");
  REFUSED(hf_stack(NULL, 1, 0, NULL, &a), HF_ERROR_USAGE, "arrays is NULL");
  REFUSED(hf_stack(pair, 2, 3, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_roll(NULL, 1, NULL, NULL, &a), HF_ERROR_USAGE, "a is NULL");
  const int64_t negative[] = {-1};
  REFUSED(hf_tile(x, negative, 1, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_repeat(x, -1, NULL, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_repeat(x, INT64_MAX, NULL, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_sort(x, 1, 0, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_argsort(x, 1, 0, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_topk(x, 4, 0, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_searchsorted(x, NULL, 0, NULL, &a), HF_ERROR_USAGE, "values is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(x);
}

static void products(void) {
  hf_array* x = counted(HF_FLOAT32, two_by_three, 2);
  hf_array *turned = NULL, *a = NULL;
  OK(hf_transpose(x, NULL, 0, &turned));
  OK(hf_matmul(x, turned, NULL, &a));
  SHOWS(a, "array([[5, 14], [14, 50]], dtype=float32)");
  REFUSED(hf_matmul(x, x, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_matmul(x, NULL, NULL, &a), HF_ERROR_USAGE, "b is NULL");
  hf_array_release(turned);
  OK(hf_softmax(x, -1, NULL, &a));
  float values[6];
  OK(hf_array_read(a, HF_FOREVER, values, sizeof values));
  CHECK(fabsf(values[0] + values[1] + values[2] - 1) < 1e-5F);
  hf_array_release(a);
  REFUSED(hf_softmax(x, 2, NULL, &a), HF_ERROR_USAGE, "");
  hf_array_release(x);

  const int64_t weights_shape[] = {8, 64}, one_shape[] = {1, 64};
  hf_array *weights = NULL, *ones = NULL, *w = NULL, *scales = NULL, *biases = NULL;
  OK(hf_full(weights_shape, 2, 0.5, HF_FLOAT32, NULL, &weights));
  OK(hf_ones(one_shape, 2, HF_FLOAT32, NULL, &ones));
  OK(hf_quantize(weights, 64, NULL, &w, &scales, &biases));
  OK(hf_quantized_matmul(ones, w, scales, biases, 64, 1, NULL, &a));
  SHOWS(a, "array([[32, 32, 32, 32, 32, 32, 32, 32]], dtype=float32)");
  REFUSED(hf_quantized_matmul(ones, w, scales, biases, 7, 1, NULL, &a), HF_ERROR_USAGE, "7");
  REFUSED(hf_quantized_matmul(ones, NULL, scales, biases, 64, 1, NULL, &a), HF_ERROR_USAGE,
          "w is NULL");
  hf_array* untouched = UNTOUCHED(hf_array);
  REFUSED(hf_quantize(weights, 7, NULL, &untouched, &untouched, &untouched), HF_ERROR_USAGE, "7");
  REFUSED(hf_quantize(weights, 64, NULL, &untouched, &untouched, NULL), HF_ERROR_USAGE,
          "biases is NULL");
  CHECK(untouched == UNTOUCHED(hf_array));
  hf_array_release(w);
  hf_array_release(scales);
  hf_array_release(biases);
  hf_array_release(weights);
  hf_array_release(ones);
}

static void what_models_spend_their_time_in(void) {
  const int64_t shape[] = {1, 1, 2, 4}, width[] = {4};
  hf_array *x = NULL, *weight = NULL, *a = NULL;
  OK(hf_ones(shape, 4, HF_FLOAT32, NULL, &x));
  OK(hf_full(width, 1, 2, HF_FLOAT32, NULL, &weight));
  OK(hf_rms_norm(x, weight, 0, NULL, &a));
  SHOWS(a, "array([[[[2, 2, 2, 2], [2, 2, 2, 2]]]], dtype=float32)");
  OK(hf_rms_norm(x, NULL, 0, NULL, &a));
  hf_array_release(a);
  OK(hf_layer_norm(x, weight, weight, 1e-5F, NULL, &a));
  SHOWS(a, "array([[[[2, 2, 2, 2], [2, 2, 2, 2]]]], dtype=float32)");
  OK(hf_layer_norm(x, NULL, NULL, 1e-5F, NULL, &a));
  hf_array_release(a);
  OK(hf_rope(x, 4, 0, 10000, 0, hf_number(hf_int32(3)), NULL, NULL, &a));
  SHOWS(a, "array([[[[1, 1, 1, 1], [1, 1, 1, 1]]]], dtype=float32)");
  OK(hf_scaled_dot_product_attention(x, x, x, 1, NULL, 1, NULL, &a));
  SHOWS(a, "array([[[[1, 1, 1, 1], [1, 1, 1, 1]]]], dtype=float32)");
  OK(hf_scaled_dot_product_attention(x, x, x, 1, NULL, 0, NULL, &a));
  hf_array_release(a);
  a = UNTOUCHED(hf_array);
  REFUSED(hf_rms_norm(NULL, weight, 0, NULL, &a), HF_ERROR_USAGE, "x is NULL");
  REFUSED(hf_rms_norm(x, x, 0, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_layer_norm(NULL, NULL, NULL, 0, NULL, &a), HF_ERROR_USAGE, "x is NULL");
  REFUSED(hf_rope(x, 4, 0, 10000, 1, hf_of(NULL), NULL, NULL, &a), HF_ERROR_USAGE,
          "offset is NULL");
  REFUSED(hf_rope(x, 99, 0, 10000, 1, hf_number(hf_int32(0)), NULL, NULL, &a), HF_ERROR_USAGE,
          "99");
  REFUSED(hf_scaled_dot_product_attention(x, x, NULL, 1, NULL, 0, NULL, &a), HF_ERROR_USAGE,
          "values is NULL");
  CHECK(a == UNTOUCHED(hf_array));
  hf_array_release(weight);
  hf_array_release(x);
}

const test op_tests[] = {
    {"creation", creation},
    {"random_numbers_are_functions_of_their_key", random_numbers_are_functions_of_their_key},
    {"views", views},
    {"updates_leave_the_array_that_was_given", updates_leave_the_array_that_was_given},
    {"every_unary_operation", every_unary_operation},
    {"every_binary_operation", every_binary_operation},
    {"numbers_take_the_dtype_of_arrays_beside_them", numbers_take_the_dtype_of_arrays_beside_them},
    {"reductions_and_scans", reductions_and_scans},
    {"rearrangements_and_sorting", rearrangements_and_sorting},
    {"products", products},
    {"what_models_spend_their_time_in", what_models_spend_their_time_in},
    {NULL, NULL}};
