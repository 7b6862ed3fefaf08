#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

static void versions_of_library_and_headers_agree(void) {
  CHECK(hf_abi_version() == HF_ABI_VERSION);
  CHECK(hf_version() == HOLDFAST_VERSION_MAJOR * 1000000U + HOLDFAST_VERSION_MINOR * 1000U +
                            HOLDFAST_VERSION_PATCH);
}

static void statuses_have_names(void) {
  CHECK(same(hf_status_name(HF_OK), "ok"));
  CHECK(same(hf_status_name(HF_ERROR_OUT_OF_MEMORY), "out of memory"));
  CHECK(same(hf_status_name(HF_ERROR_UNKNOWN), "unknown"));
  CHECK(same(hf_status_name(-7), "unknown"));
  for (hf_status i = HF_OK; i < HF_ERROR_UNKNOWN; ++i) {
    CHECK(strcmp(hf_status_name(i), "unknown") != 0);
  }
}

static void* without_an_error(void* unused) {
  (void)unused;
  CHECK(same(hf_last_error(), ""));
  CHECK(hf_last_status() == HF_OK);
  size_t size = 0;
  REFUSED(hf_dtype_size(77, &size), HF_ERROR_USAGE, "77 is no dtype");
  return NULL;
}

static void errors_belong_to_the_thread_that_met_them(void) {
  size_t none = 5;
  REFUSED(hf_dtype_size(99, &none), HF_ERROR_USAGE, "99 is no dtype");
  CHECK(none == 5);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, without_an_error, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strstr(hf_last_error(), "99 is no dtype") != NULL);
  // What succeeds leaves them alone.
  size_t size = 0;
  OK(hf_dtype_size(HF_INT16, &size));
  CHECK(size == 2);
  CHECK(hf_last_status() == HF_ERROR_USAGE);
}

static void long_words_of_an_error_are_kept_whole(void) {
  static char name[3000];
  memset(name, 'x', sizeof name);
  const hf_text text = {name, sizeof name};
  hf_device* device = UNTOUCHED(hf_device);
  REFUSED(hf_device_get(text, &device), HF_ERROR_USAGE, "xxx");
  CHECK(strlen(hf_last_error()) > sizeof name);
  CHECK(device == UNTOUCHED(hf_device));
  REFUSED(hf_device_get(hf_str("short"), &device), HF_ERROR_USAGE, "short");
  CHECK(strlen(hf_last_error()) < sizeof name);
}

static void texts_have_lengths(void) {
  hf_device* device = NULL;
  // No byte beyond the length is looked at.
  const hf_text cpu = {"cpu(and more", 3};
  OK(hf_device_get(cpu, &device));
  hf_device_release(device);
  const hf_text zero = {"cp\0u", 4};
  REFUSED(hf_device_get(zero, &device), HF_ERROR_USAGE, "zero byte at position 2");
  const hf_text nothing = {NULL, 3};
  REFUSED(hf_device_get(nothing, &device), HF_ERROR_USAGE, "hf_device_get: name is NULL");
  const hf_text huge = {"cpu", SIZE_MAX};
  REFUSED(hf_device_get(huge, &device), HF_ERROR_USAGE, "check the count");
  REFUSED(hf_device_get(hf_str(NULL), &device), HF_ERROR_USAGE, "");
}

static void dtypes_have_sizes_names_and_promotions(void) {
  const size_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  for (hf_dtype i = HF_BOOL; i <= HF_FLOAT64; ++i) {
    size_t size = 0;
    OK(hf_dtype_size(i, &size));
    CHECK(size == sizes[i]);
  }
  const char* name = NULL;
  OK(hf_dtype_name(HF_BFLOAT16, &name));
  CHECK(same(name, "bfloat16"));
  hf_dtype promoted = -1;
  OK(hf_dtype_promote(HF_INT32, HF_FLOAT16, &promoted));
  CHECK(promoted == HF_FLOAT16);
  REFUSED(hf_dtype_promote(HF_INT32, -1, &promoted), HF_ERROR_USAGE, "-1 is no dtype");
  REFUSED(hf_dtype_promote(HF_INT32, HF_INT8, NULL), HF_ERROR_USAGE, "promoted is NULL");
  REFUSED(hf_dtype_name(13, &name), HF_ERROR_USAGE, "13 is no dtype");
  REFUSED(hf_dtype_name(HF_INT8, NULL), HF_ERROR_USAGE, "hf_dtype_name: name is NULL");
  REFUSED(hf_dtype_size(HF_INT8, NULL), HF_ERROR_USAGE, "size is NULL");
  CHECK(same(name, "bfloat16"));
}

static void nothing_is_freed_without_complaint(void) {
  hf_free(NULL);
  hf_array_release(NULL);
  hf_device_release(NULL);
  hf_stream_release(NULL);
  hf_kernel_release(NULL);
  hf_map_release(NULL);
  hf_device_list_release(NULL);
  hf_kernel_times_release(NULL);
  hf_stream_scope_end(NULL);
  CHECK(hf_array_retain(NULL) == NULL);
  CHECK(hf_device_retain(NULL) == NULL);
  CHECK(hf_stream_retain(NULL) == NULL);
  CHECK(hf_kernel_retain(NULL) == NULL);
}

const test base_tests[] = {
    {"versions_of_library_and_headers_agree", versions_of_library_and_headers_agree},
    {"statuses_have_names", statuses_have_names},
    {"errors_belong_to_the_thread_that_met_them", errors_belong_to_the_thread_that_met_them},
    {"long_words_of_an_error_are_kept_whole", long_words_of_an_error_are_kept_whole},
    {"texts_have_lengths", texts_have_lengths},
    {"dtypes_have_sizes_names_and_promotions", dtypes_have_sizes_names_and_promotions},
    {"nothing_is_freed_without_complaint", nothing_is_freed_without_complaint},
    {NULL, NULL}};
