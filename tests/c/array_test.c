#include "check.h"

static const int64_t two_by_three[] = {2, 3};

static void elements_go_in_and_come_out(void) {
  const int16_t values[] = {1, -2, 3, -4, 5, -6};
  hf_array* a = NULL;
  OK(hf_array_create(HF_INT16, two_by_three, 2, values, sizeof values, NULL, &a));
  int16_t back[6] = {0};
  OK(hf_array_read(a, HF_FOREVER, back, sizeof back));
  CHECK(memcmp(values, back, sizeof back) == 0);
  hf_dtype dtype = -1;
  size_t ndim = 0, nbytes = 0;
  int64_t size = 0, shape[2] = {0}, strides[2] = {0};
  int32_t is = -1;
  OK(hf_array_dtype(a, &dtype));
  OK(hf_array_ndim(a, &ndim));
  OK(hf_array_size(a, &size));
  OK(hf_array_nbytes(a, &nbytes));
  OK(hf_array_shape(a, 2, shape));
  OK(hf_array_strides(a, 2, strides));
  OK(hf_array_is_row_contiguous(a, &is));
  CHECK(dtype == HF_INT16 && ndim == 2 && size == 6 && nbytes == 12 && is == 1);
  CHECK(shape[0] == 2 && shape[1] == 3 && strides[0] == 3 && strides[1] == 1);
  SHOWS(a, "array([[1, -2, 3], [-4, 5, -6]], dtype=int16)");
}

static void wrong_counts_dtypes_and_shapes_are_refused(void) {
  const float values[6] = {0};
  hf_array* a = UNTOUCHED(hf_array);
  REFUSED(hf_array_create(HF_FLOAT32, two_by_three, 2, values, 20, NULL, &a), HF_ERROR_USAGE,
          "6 elements of float32, and 5 were given");
  REFUSED(hf_array_create(13, two_by_three, 2, values, 24, NULL, &a), HF_ERROR_USAGE,
          "hf_array_create: 13 is no dtype");
  REFUSED(hf_array_create(INT32_MIN, two_by_three, 2, values, 24, NULL, &a), HF_ERROR_USAGE,
          "is no dtype");
  REFUSED(hf_array_create(HF_FLOAT32, NULL, 2, values, 24, NULL, &a), HF_ERROR_USAGE,
          "shape is NULL");
  REFUSED(hf_array_create(HF_FLOAT32, two_by_three, 2, NULL, 24, NULL, &a), HF_ERROR_USAGE,
          "data is NULL");
  REFUSED(hf_array_create(HF_FLOAT32, two_by_three, 2, values, 24, NULL, NULL), HF_ERROR_USAGE,
          "the place of the result is NULL");
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  REFUSED(hf_array_create(HF_FLOAT32, many, 9, values, 4, NULL, &a), HF_ERROR_USAGE, "9");
  REFUSED(hf_zeros(many, SIZE_MAX, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_zeros(many, SIZE_MAX / 8, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "");
  const int64_t negative[] = {-1};
  REFUSED(hf_zeros(negative, 1, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "-1");
  const int64_t longest[] = {INT64_MAX};
  REFUSED(hf_zeros(longest, 1, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "");
  const int64_t lowest[] = {INT64_MIN, INT64_MIN};
  REFUSED(hf_zeros(lowest, 2, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "");
  const int64_t large[] = {0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff};
  REFUSED(hf_zeros(large, 4, HF_FLOAT32, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_array_create(HF_FLOAT64, large, 4, values, 24, NULL, &a), HF_ERROR_USAGE, "");
  REFUSED(hf_array_create(HF_UINT8, longest, 1, values, SIZE_MAX, NULL, &a), HF_ERROR_USAGE,
          "check the count");
  CHECK(a == UNTOUCHED(hf_array));
}

static void arrays_without_elements_and_scalars_are_arrays(void) {
  const int64_t none[] = {0, 3};
  hf_array* a = NULL;
  OK(hf_array_create(HF_FLOAT32, none, 2, NULL, 0, NULL, &a));
  OK(hf_array_read(a, HF_FOREVER, NULL, 0));
  hf_map* map = NULL;
  OK(hf_array_map(a, HF_FOREVER, &map));
  const void* data = a;
  size_t size = 1;
  OK(hf_map_bytes(map, &data, &size));
  CHECK(data == NULL && size == 0);
  hf_map_release(map);
  hf_scalar item;
  REFUSED(hf_array_item(a, HF_FOREVER, &item), HF_ERROR_USAGE, "0 elements");
  hf_array_release(a);

  const hf_scalar values[] = {hf_bool(7),     hf_int32(-3),          hf_uint32(4000000000U),
                              hf_int64(-5),   hf_uint64(1ULL << 63), hf_float32(1.5F),
                              hf_float64(0.1)};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
    OK(hf_array_create_scalar(values[i], NULL, &a));
    OK(hf_array_item(a, HF_FOREVER, &item));
    CHECK(item.dtype == values[i].dtype);
    uint64_t mask = UINT64_MAX;
    size_t bytes = 0;
    OK(hf_dtype_size(item.dtype, &bytes));
    if (bytes < 8) mask = ((uint64_t)1 << (8 * bytes)) - 1;
    CHECK((item.bits & mask) == (values[i].bits & mask) && (item.bits & ~mask) == 0);
    size_t ndim = 1;
    OK(hf_array_ndim(a, &ndim));
    CHECK(ndim == 0);
    OK(hf_array_shape(a, 0, NULL));
    hf_array_release(a);
  }
  const hf_scalar wrong = {0, 40};
  REFUSED(hf_array_create_scalar(wrong, NULL, &a), HF_ERROR_USAGE, "40 is no dtype");
}

static void handles_that_are_null_or_of_another_kind_are_refused(void) {
  hf_stream* stream = NULL;
  hf_device* device = NULL;
  hf_array* a = counted(HF_FLOAT32, two_by_three, 2);
  OK(hf_array_stream(a, &stream));
  OK(hf_array_device(a, &device));
  hf_dtype dtype = 77;
  REFUSED(hf_array_dtype(NULL, &dtype), HF_ERROR_USAGE, "hf_array_dtype: array is NULL");
  REFUSED(hf_array_dtype((hf_array*)(void*)stream, &dtype), HF_ERROR_USAGE,
          "array must be an array, and is a stream");
  REFUSED(hf_array_dtype(a, NULL), HF_ERROR_USAGE, "dtype is NULL");
  CHECK(dtype == 77);
  hf_array* made = UNTOUCHED(hf_array);
  REFUSED(hf_zeros(two_by_three, 2, HF_INT8, (hf_stream*)(void*)a, &made), HF_ERROR_USAGE,
          "stream must be a stream, and is an array");
  REFUSED(hf_stream_flush((hf_stream*)(void*)device), HF_ERROR_USAGE, "and is a device");
  CHECK(made == UNTOUCHED(hf_array));
  // Neither is touched by a release that mixes them up.
  hf_array_release((hf_array*)(void*)stream);
  CHECK(strstr(hf_last_error(), "hf_array_release") != NULL);
  CHECK(hf_stream_retain((hf_stream*)(void*)a) == NULL);
  OK(hf_stream_flush(stream));

  size_t ndim = 0;
  int64_t shape[2] = {5, 5};
  int32_t is = 0;
  char* text = NULL;
  REFUSED(hf_array_ndim(NULL, &ndim), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_ndim(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_size(NULL, shape), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_size(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_nbytes(NULL, &ndim), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_nbytes(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_shape(NULL, 2, shape), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_shape(a, 2, NULL), HF_ERROR_USAGE, "shape is NULL");
  REFUSED(hf_array_shape(a, 1, shape), HF_ERROR_USAGE, "room for 1 numbers, and the array has 2");
  REFUSED(hf_array_strides(NULL, 2, shape), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_strides(a, 2, NULL), HF_ERROR_USAGE, "strides is NULL");
  REFUSED(hf_array_strides(a, 0, shape), HF_ERROR_USAGE, "room for 0");
  CHECK(shape[0] == 5 && shape[1] == 5);
  REFUSED(hf_array_is_row_contiguous(NULL, &is), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_is_row_contiguous(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_is_recorded(NULL, &is), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_is_recorded(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_stream(NULL, &stream), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_stream(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_device(NULL, &device), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_name(NULL, &text), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_name(a, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_set_name(NULL, hf_str("x")), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_to_text(NULL, HF_FOREVER, &text), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_to_text(a, HF_FOREVER, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_read(NULL, HF_FOREVER, shape, 8), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_read(a, HF_FOREVER, NULL, 24), HF_ERROR_USAGE, "data is NULL");
  REFUSED(hf_array_read(a, HF_FOREVER, shape, 16), HF_ERROR_USAGE, "24 bytes");
  REFUSED(hf_array_read(a, HF_FOREVER, shape, SIZE_MAX), HF_ERROR_USAGE, "");
  REFUSED(hf_array_read(a, -2, shape, 24), HF_ERROR_USAGE, "a timeout of -2 ns");
  REFUSED(hf_array_item(NULL, HF_FOREVER, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_item(a, HF_FOREVER, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_array_map(NULL, HF_FOREVER, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_map_bytes(NULL, NULL, NULL), HF_ERROR_USAGE, "map is NULL");
  REFUSED(hf_to_device(NULL, device, &made), HF_ERROR_USAGE, "array is NULL");
  REFUSED(hf_to_device(a, NULL, &made), HF_ERROR_USAGE, "device is NULL");
  hf_array* list[] = {a, NULL};
  REFUSED(hf_eval(list, 2, HF_FOREVER), HF_ERROR_USAGE, "hf_eval: arrays[1] is NULL");
  REFUSED(hf_eval(NULL, 1, HF_FOREVER), HF_ERROR_USAGE, "arrays is NULL");
  REFUSED(hf_eval(list, SIZE_MAX, HF_FOREVER), HF_ERROR_USAGE, "check the count");
  REFUSED(hf_async_eval(list, 2), HF_ERROR_USAGE, "arrays[1]");
  OK(hf_eval(NULL, 0, HF_FOREVER));
  OK(hf_async_eval(NULL, 0));
  hf_array_release(a);
  hf_stream_release(stream);
  hf_device_release(device);
}

static void a_handle_lives_until_its_last_release(void) {
  hf_array* a = counted(HF_INT32, two_by_three, 2);
  CHECK(hf_array_retain(a) == a);
  hf_array_release(a);
  OK(hf_eval(&a, 1, HF_FOREVER));
  hf_array_release(a);
}

static void arrays_are_lazy_and_named(void) {
  hf_array* a = counted(HF_INT32, two_by_three, 2);
  int32_t is = -1;
  OK(hf_array_is_recorded(a, &is));
  CHECK(is == 0);
  OK(hf_async_eval(&a, 1));
  OK(hf_array_is_recorded(a, &is));
  CHECK(is == 1);
  char* name = NULL;
  OK(hf_array_name(a, &name));
  CHECK(same(name, ""));
  hf_free(name);
  OK(hf_array_set_name(a, hf_str("weights")));
  OK(hf_array_set_name(a, hf_str("ignored")));
  OK(hf_array_name(a, &name));
  CHECK(same(name, "weights"));
  hf_free(name);
  hf_array_release(a);
}

static void maps_show_elements_in_rows(void) {
  hf_array* a = counted(HF_INT32, two_by_three, 2);
  hf_array* turned = NULL;
  OK(hf_transpose(a, NULL, 0, &turned));
  hf_array_release(a);
  hf_map* map = NULL;
  OK(hf_array_map(turned, HF_FOREVER, &map));
  hf_array_release(turned);
  const void* data = NULL;
  size_t size = 0;
  OK(hf_map_bytes(map, &data, &size));
  const int32_t wanted[] = {0, 3, 1, 4, 2, 5};
  CHECK(size == sizeof wanted && memcmp(data, wanted, size) == 0);
  REFUSED(hf_map_bytes(map, NULL, &size), HF_ERROR_USAGE, "data is NULL");
  REFUSED(hf_map_bytes(map, &data, NULL), HF_ERROR_USAGE, "size is NULL");
  hf_map_release(map);
}

static void count_up(void* context) { __atomic_add_fetch((int*)context, 1, __ATOMIC_ACQ_REL); }

static void external_memory_is_given_back_once(void) {
  static float memory[1024];
  const int64_t shape[] = {1024};
  for (size_t i = 0; i < 1024; ++i) memory[i] = 1;
  int deleted = 0;
  hf_array* a = NULL;
  OK(hf_array_from_external(memory, HF_FLOAT32, shape, 1, count_up, &deleted, NULL, &a));
  hf_array* sum = NULL;
  OK(hf_reduce(HF_SUM, a, NULL, 0, 0, NULL, &sum));
  OK(hf_async_eval(&sum, 1));
  hf_array_release(a);  // in flight: the memory stays
  hf_device* device = NULL;
  OK(hf_array_device(sum, &device));
  SHOWS(sum, "array(1024, dtype=float32)");
  // The last list is retired by whoever comes next.
  while (__atomic_load_n(&deleted, __ATOMIC_ACQUIRE) == 0) {
    OK(hf_device_synchronize(device, HF_FOREVER));
  }
  CHECK(deleted == 1);
  hf_device_release(device);

  // What fails takes nothing over.
  a = UNTOUCHED(hf_array);
  REFUSED(
      hf_array_from_external((char*)memory + 1, HF_FLOAT32, shape, 1, count_up, &deleted, NULL, &a),
      HF_ERROR_USAGE, "not aligned");
  REFUSED(hf_array_from_external(NULL, HF_FLOAT32, shape, 1, count_up, &deleted, NULL, &a),
          HF_ERROR_USAGE, "data is NULL");
  REFUSED(hf_array_from_external(memory, 20, shape, 1, count_up, &deleted, NULL, &a),
          HF_ERROR_USAGE, "20 is no dtype");
  REFUSED(
      hf_array_from_external(memory, HF_FLOAT32, shape, 0xffffffff, count_up, &deleted, NULL, &a),
      HF_ERROR_USAGE, "");
  CHECK(deleted == 1 && a == UNTOUCHED(hf_array));
  // Memory that outlives everything needs no deleter.
  OK(hf_array_from_external(memory, HF_FLOAT32, shape, 1, NULL, NULL, NULL, &a));
  hf_array_release(a);
}

static void arrays_go_to_another_device(void) {
  hf_device* other = NULL;
  OK(hf_device_open(hf_str("cpu"), NULL, &other));
  hf_array* a = counted(HF_INT32, two_by_three, 2);
  hf_array* moved = NULL;
  OK(hf_to_device(a, other, &moved));
  hf_array_release(a);
  hf_device* found = NULL;
  int32_t equal = 0;
  OK(hf_array_device(moved, &found));
  OK(hf_device_equal(found, other, &equal));
  CHECK(equal == 1);
  hf_device_release(found);
  SHOWS(moved, "array([[0, 1, 2], [3, 4, 5]], dtype=int32)");
  hf_device_release(other);
}

static void files_keep_arrays(void) {
  char path[256];
  const char* folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/holdfast_c_test_%p.npy", folder != NULL ? folder : "/tmp",
           (void*)path);
  hf_array* a = counted(HF_FLOAT64, two_by_three, 2);
  OK(hf_save_npy(hf_str(path), a, HF_FOREVER));
  hf_array* loaded = NULL;
  OK(hf_load_npy(hf_str(path), NULL, &loaded));
  SHOWS(loaded, "array([[0, 1, 2], [3, 4, 5]], dtype=float64)");
  remove(path);
  loaded = UNTOUCHED(hf_array);
  REFUSED(hf_load_npy(hf_str(path), NULL, &loaded), HF_ERROR_ENVIRONMENT, path);
  const hf_text cut = {"a.npy\0b", 7};
  REFUSED(hf_load_npy(cut, NULL, &loaded), HF_ERROR_USAGE, "zero byte at position 5");
  REFUSED(hf_save_npy(cut, a, HF_FOREVER), HF_ERROR_USAGE, "zero byte");
  REFUSED(hf_save_npy(hf_str("/no/such/folder/a.npy"), a, HF_FOREVER), HF_ERROR_ENVIRONMENT,
          "/no/such/folder");
  REFUSED(hf_save_npy(hf_str(path), NULL, HF_FOREVER), HF_ERROR_USAGE, "array is NULL");
  CHECK(loaded == UNTOUCHED(hf_array));
  hf_array_release(a);
}

const test array_tests[] = {
    {"elements_go_in_and_come_out", elements_go_in_and_come_out},
    {"wrong_counts_dtypes_and_shapes_are_refused", wrong_counts_dtypes_and_shapes_are_refused},
    {"arrays_without_elements_and_scalars_are_arrays",
     arrays_without_elements_and_scalars_are_arrays},
    {"handles_that_are_null_or_of_another_kind_are_refused",
     handles_that_are_null_or_of_another_kind_are_refused},
    {"a_handle_lives_until_its_last_release", a_handle_lives_until_its_last_release},
    {"arrays_are_lazy_and_named", arrays_are_lazy_and_named},
    {"maps_show_elements_in_rows", maps_show_elements_in_rows},
    {"external_memory_is_given_back_once", external_memory_is_given_back_once},
    {"arrays_go_to_another_device", arrays_go_to_another_device},
    {"files_keep_arrays", files_keep_arrays},
    {NULL, NULL}};
