#include <math.h>
#include <stddef.h>

#include "check.h"

// What a careless or hostile caller gives: numbers at the ends of their types. Each call either is
// refused or gives an array; nothing else happens.

static const int64_t shape[] = {2, 3};

// Refused, or an array that nobody needs.
static void either(hf_status status, hf_array** made) {
  if (status == HF_OK) {
    CHECK(*made != NULL);
    hf_array_release(*made);
  } else {
    CHECK(*made == NULL && hf_last_error()[0] != '\0');
  }
  *made = NULL;
}

static void extreme_numbers_in_creation(void) {
  const double doubles[] = {0, -0.0, 1, -1, 1e300, -1e300, 1e-300, NAN, INFINITY, -INFINITY};
  const size_t count = sizeof doubles / sizeof doubles[0];
  hf_array* a = NULL;
  for (hf_dtype dtype = HF_BOOL; dtype <= HF_FLOAT64; ++dtype) {
    for (size_t i = 0; i < count; ++i) {
      either(hf_full(shape, 2, doubles[i], dtype, NULL, &a), &a);
      for (size_t j = 0; j < count; ++j) {
        either(hf_arange(doubles[i], doubles[j], doubles[(i + j) % count], dtype, NULL, &a), &a);
        either(hf_linspace(doubles[i], doubles[j], 3, 1, dtype, NULL, &a), &a);
      }
    }
  }
  const int64_t lengths[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 0x7fffffff, 0x80000000, INT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    either(hf_linspace(0, 1, lengths[i], 1, HF_FLOAT32, NULL, &a), &a);
    either(hf_eye(lengths[i], HF_FLOAT32, NULL, &a), &a);
    for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; ++j) {
      const int64_t both[] = {lengths[i], lengths[j]};
      either(hf_zeros(both, 2, HF_FLOAT64, NULL, &a), &a);
      either(hf_random_uniform(both, 2, HF_FLOAT32, NULL, NULL, &a), &a);
    }
  }
}

static void extreme_numbers_in_operations(void) {
  const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, -9, -3, -2, -1, 0, 1, 2, 3, 9, 63,
                             64,        INT32_MAX,     INT64_MAX};
  const size_t count = sizeof numbers / sizeof numbers[0];
  hf_array* x = counted(HF_FLOAT32, shape, 2);
  hf_array* indices = NULL;
  OK(hf_zeros(shape, 2, HF_INT32, NULL, &indices));
  hf_array* a = NULL;
  for (size_t i = 0; i < count; ++i) {
    const int64_t n = numbers[i];
    either(hf_tril(x, n, NULL, &a), &a);
    either(hf_triu(x, n, NULL, &a), &a);
    either(hf_squeeze(x, &n, 1, &a), &a);
    either(hf_expand_dims(x, &n, 1, &a), &a);
    either(hf_flip(x, &n, 1, &a), &a);
    either(hf_transpose(x, &n, 1, &a), &a);
    either(hf_reduce(HF_SUM, x, &n, 1, 0, NULL, &a), &a);
    either(hf_var(x, &n, 1, 0, (double)n, NULL, &a), &a);
    either(hf_argmax(x, &n, 0, NULL, &a), &a);
    either(hf_cumsum(x, &n, 0, 0, NULL, &a), &a);
    either(hf_softmax(x, n, NULL, &a), &a);
    either(hf_concatenate(&x, 1, n, NULL, &a), &a);
    either(hf_stack(&x, 1, n, NULL, &a), &a);
    either(hf_tile(x, &n, 1, NULL, &a), &a);
    either(hf_repeat(x, n, NULL, NULL, &a), &a);
    either(hf_sort(x, n, 0, NULL, &a), &a);
    either(hf_argsort(x, n, 0, NULL, &a), &a);
    either(hf_take_along_axis(x, indices, n, NULL, &a), &a);
    either(hf_scatter_along_axis(x, indices, x, n, HF_UPDATE_ADD, NULL, &a), &a);
    either(hf_rope(x, n, 0, 1, 1, hf_number(hf_int64(n)), NULL, NULL, &a), &a);
    either(hf_quantized_matmul(x, indices, x, x, n, 1, NULL, &a), &a);
    for (hf_binary_op op = HF_ADD; op <= HF_RIGHT_SHIFT; ++op) {
      either(hf_binary(op, hf_of(indices), hf_number(hf_int64(n)), NULL, &a), &a);
    }
    for (size_t j = 0; j < count; ++j) {
      const int64_t m = numbers[j];
      const int64_t both[] = {n, m};
      either(hf_index(x, n, m, &a), &a);
      either(hf_roll(x, n, &m, NULL, &a), &a);
      either(hf_repeat(x, n, &m, NULL, &a), &a);
      either(hf_topk(x, n, m, NULL, &a), &a);
      either(hf_take(x, indices, &n, NULL, &a), &a);
      either(hf_transpose(x, both, 2, &a), &a);
      either(hf_tile(x, both, 2, NULL, &a), &a);
      either(hf_reshape(x, both, 2, NULL, &a), &a);
      either(hf_broadcast_to(x, both, 2, &a), &a);
      either(hf_as_strided(x, shape, both, 2, n, &a), &a);
      either(hf_as_strided(x, both, shape, 2, m, &a), &a);
      for (size_t k = 0; k < count; ++k) {
        const hf_slice slices[] = {{n, m, numbers[k]}, {numbers[k], n, m}};
        either(hf_slice_axes(x, slices, 2, &a), &a);
        either(hf_slice_update(x, x, slices, 2, NULL, &a), &a);
      }
    }
  }
  hf_array_release(indices);
  SHOWS(x, "array([[0, 1, 2], [3, 4, 5]], dtype=float32)");
}

static void extreme_waits_and_limits(void) {
  hf_array* x = counted(HF_FLOAT32, shape, 2);
  OK(hf_eval(&x, 1, INT64_MAX));
  REFUSED(hf_eval(&x, 1, INT64_MIN), HF_ERROR_USAGE, "timeout");
  hf_array_release(x);
  hf_device_options options = {.struct_size = sizeof options};
  options.memory_limit = options.deferred_limit = UINT64_MAX;
  options.kernel_variants = options.kernel_bytes = options.submit_bytes = UINT64_MAX;
  options.submit_time_ns = INT64_MAX;
  options.submit_commands = options.max_in_flight = UINT32_MAX;
  hf_device* device = NULL;
  OK(hf_device_open(hf_str("cpu"), &options, &device));
  hf_stream* stream = NULL;
  OK(hf_device_default_stream(device, &stream));
  OK(hf_ones(shape, 2, HF_FLOAT32, stream, &x));
  OK(hf_eval(&x, 1, HF_FOREVER));
  OK(hf_device_set_memory_limit(device, UINT64_MAX));
  OK(hf_device_set_cache_limit(device, UINT64_MAX));
  OK(hf_device_set_kernel_limits(device, UINT64_MAX, UINT64_MAX));
  OK(hf_device_set_kernel_limits(device, 0, 0));
  SHOWS(x, "array([[1, 1, 1], [1, 1, 1]], dtype=float32)");
  hf_stream_release(stream);
  hf_device_release(device);
}

const test hostile_tests[] = {{"extreme_numbers_in_creation", extreme_numbers_in_creation},
                              {"extreme_numbers_in_operations", extreme_numbers_in_operations},
                              {"extreme_waits_and_limits", extreme_waits_and_limits},
                              {NULL, NULL}};
