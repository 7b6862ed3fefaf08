#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

static const int64_t thousand[] = {1000};

static void devices_are_found_by_name(void) {
  hf_device *a = NULL, *b = NULL, *separate = NULL;
  int32_t equal = -1;
  OK(hf_device_get(hf_str("cpu"), &a));
  OK(hf_device_get(hf_str("cpu"), &b));
  OK(hf_device_equal(a, b, &equal));
  CHECK(equal == 1);
  OK(hf_device_open(hf_str("cpu"), NULL, &separate));
  OK(hf_device_equal(a, separate, &equal));
  CHECK(equal == 0);
  const char *name = NULL, *description = NULL;
  OK(hf_device_name(separate, &name));
  CHECK(strstr(name, "cpu") != NULL);
  OK(hf_device_description(separate, &description));
  CHECK(description[0] != '\0');
  CHECK(hf_device_retain(separate) == separate);
  hf_device_release(separate);
  hf_device_release(b);

  OK(hf_device_default(&b));
  OK(hf_device_set_default(separate));
  hf_array* array = NULL;
  hf_device* found = NULL;
  OK(hf_zeros(NULL, 0, HF_INT8, NULL, &array));
  OK(hf_array_device(array, &found));
  OK(hf_device_equal(found, separate, &equal));
  CHECK(equal == 1);
  OK(hf_device_set_default(b));
  hf_array_release(array);
  hf_device_release(found);
  hf_device_release(separate);
  hf_device_release(b);

  found = UNTOUCHED(hf_device);
  REFUSED(hf_device_get(hf_str("nonesuch"), &found), HF_ERROR_USAGE, "cpu");
  REFUSED(hf_device_get(hf_str("cpu"), NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_device_open(hf_str("nonesuch"), NULL, &found), HF_ERROR_USAGE, "nonesuch");
  REFUSED(hf_device_default(NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_device_set_default(NULL), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_equal(a, NULL, &equal), HF_ERROR_USAGE, "b is NULL");
  REFUSED(hf_device_equal(a, a, NULL), HF_ERROR_USAGE, "equal is NULL");
  REFUSED(hf_device_name(NULL, &name), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_name(a, NULL), HF_ERROR_USAGE, "name is NULL");
  REFUSED(hf_device_description(NULL, &name), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_description(a, NULL), HF_ERROR_USAGE, "description is NULL");
  CHECK(found == UNTOUCHED(hf_device));
  hf_device_release(a);
}

static void devices_are_listed(void) {
  hf_device_list* list = NULL;
  OK(hf_device_list_create(&list));
  size_t size = 0;
  OK(hf_device_list_size(list, &size));
  int cpus = 0;
  const char *name = NULL, *description = NULL, *missing = NULL;
  for (size_t i = 0; i < size; ++i) {
    OK(hf_device_list_get(list, i, &name, &description, &missing));
    if (strcmp(name, "cpu") == 0) {
      ++cpus;
      CHECK(description[0] != '\0' && missing[0] == '\0');
    }
  }
  CHECK(cpus == 1);
  REFUSED(hf_device_list_get(list, size, &name, &description, &missing), HF_ERROR_USAGE,
          "there is no entry");
  REFUSED(hf_device_list_get(list, 0, NULL, &description, &missing), HF_ERROR_USAGE, "name");
  REFUSED(hf_device_list_get(NULL, 0, &name, &description, &missing), HF_ERROR_USAGE, "list");
  REFUSED(hf_device_list_size(NULL, &size), HF_ERROR_USAGE, "list is NULL");
  REFUSED(hf_device_list_size(list, NULL), HF_ERROR_USAGE, "size is NULL");
  REFUSED(hf_device_list_create(NULL), HF_ERROR_USAGE, "NULL");
  hf_device_list_release(list);
}

static void devices_say_what_they_are(void) {
  hf_device* device = NULL;
  OK(hf_device_get(hf_str("cpu"), &device));
  hf_device_info info = {.struct_size = sizeof info};
  OK(hf_device_get_info(device, &info));
  CHECK(info.struct_size == sizeof info && info.memory > 0 && info.max_group_threads > 0);
  CHECK(info.host_visible == 1 && info.many_weak_threads == 0 && info.queues > 0);
  struct {
    hf_device_info known;
    uint64_t later;
  } larger = {{.struct_size = sizeof larger}, 9};
  OK(hf_device_get_info(device, &larger.known));
  CHECK(larger.known.memory == info.memory && larger.later == 0);
  info.struct_size = 0;
  REFUSED(hf_device_get_info(device, &info), HF_ERROR_USAGE, "sizeof(hf_device_info)");
  REFUSED(hf_device_get_info(device, NULL), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_device_get_info(NULL, &larger.known), HF_ERROR_USAGE, "device is NULL");
  hf_device_release(device);
}

static void memory_is_limited_and_an_evaluation_that_found_none_can_be_made_again(void) {
  hf_device_options options = {.struct_size = sizeof options};
  options.memory_limit = (uint64_t)1 << 20;
  options.deferred_limit = (uint64_t)1 << 20;
  options.kernel_variants = 100;
  options.kernel_bytes = (uint64_t)1 << 24;
  options.shutdown_bound_ns = 1000000000;
  options.submit_commands = 8;
  options.submit_bytes = (uint64_t)1 << 20;
  options.submit_time_ns = 1000000;
  options.max_in_flight = 100;
  hf_device* device = NULL;
  OK(hf_device_open(hf_str("cpu"), &options, &device));
  hf_stream* stream = NULL;
  OK(hf_device_default_stream(device, &stream));
  const int64_t large[] = {1 << 20};
  hf_array* a = NULL;
  OK(hf_ones(large, 1, HF_FLOAT32, stream, &a));
  REFUSED(hf_eval(&a, 1, HF_FOREVER), HF_ERROR_OUT_OF_MEMORY, "");
  OK(hf_device_set_memory_limit(device, (uint64_t)64 << 20));
  OK(hf_eval(&a, 1, HF_FOREVER));
  hf_stats stats = {.struct_size = sizeof stats};
  OK(hf_device_get_stats(device, &stats));
  CHECK(stats.memory_live >= (uint64_t)4 << 20 && stats.nodes_recorded == 1);
  CHECK(stats.memory_live_peak >= stats.memory_live && stats.submissions > 0);
  hf_array_release(a);
  OK(hf_device_synchronize(device, HF_FOREVER));
  OK(hf_device_set_cache_limit(device, 0));
  OK(hf_device_clear_cache(device));
  OK(hf_device_get_stats(device, &stats));
  CHECK(stats.memory_live == 0);
  uint64_t count = 0, total = 0, longest = 0, waits = 0, waited = 0;
  for (hf_wait_reason reason = HF_WAIT_SYNCHRONIZE; reason <= HF_WAIT_SHUTDOWN; ++reason) {
    OK(hf_device_waits(device, reason, &count, &total, &longest));
    CHECK(longest <= total);
    waits += count;
    waited += total;
  }
  CHECK(waits == stats.waits && waited == stats.wait_ns);
  char* text = NULL;
  OK(hf_device_stats_text(device, &text));
  CHECK(text[0] != '\0');
  hf_free(text);

  REFUSED(hf_device_waits(device, 10, &count, &total, &longest), HF_ERROR_USAGE,
          "10 is no reason to wait");
  REFUSED(hf_device_waits(device, 0, NULL, &total, &longest), HF_ERROR_USAGE, "count is NULL");
  REFUSED(hf_device_waits(NULL, 0, &count, &total, &longest), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_stats_text(device, NULL), HF_ERROR_USAGE, "the place of the text is NULL");
  REFUSED(hf_device_get_stats(device, NULL), HF_ERROR_USAGE, "NULL");
  stats.struct_size = 16;
  REFUSED(hf_device_get_stats(device, &stats), HF_ERROR_USAGE, "sizeof(hf_stats)");
  REFUSED(hf_device_set_memory_limit(NULL, 1), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_set_cache_limit(NULL, 1), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_clear_cache(NULL), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_synchronize(NULL, 0), HF_ERROR_USAGE, "device is NULL");
  hf_stream_release(stream);
  hf_device_release(device);
  device = UNTOUCHED(hf_device);
  options.submit_time_ns = -1;
  REFUSED(hf_device_open(hf_str("cpu"), &options, &device), HF_ERROR_USAGE, "negative time");
  options.struct_size = 1;
  REFUSED(hf_device_open(hf_str("cpu"), &options, &device), HF_ERROR_USAGE, "struct_size");
  CHECK(device == UNTOUCHED(hf_device));
}

static void kernels_are_kept_dropped_and_measured(void) {
  hf_device* device = NULL;
  OK(hf_device_open(hf_str("cpu"), NULL, &device));
  hf_stream* stream = NULL;
  OK(hf_device_default_stream(device, &stream));
  const hf_status status = hf_device_set_profiling(device, 1);
  CHECK(status == HF_OK || status == HF_ERROR_UNSUPPORTED);
  hf_array* a = NULL;
  OK(hf_arange(0, 1000, 1, HF_FLOAT32, stream, &a));
  OK(hf_eval(&a, 1, HF_FOREVER));
  hf_array_release(a);
  hf_kernel_times* times = NULL;
  OK(hf_device_kernel_times(device, &times));
  size_t size = 0;
  OK(hf_kernel_times_size(times, &size));
  const char* kernel = NULL;
  uint64_t launches = 0, ns = 0;
  if (status == HF_OK) {
    CHECK(size == 1);
    OK(hf_kernel_times_get(times, 0, &kernel, &launches, &ns));
    CHECK(kernel[0] != '\0' && launches == 1);
    OK(hf_device_set_profiling(device, 0));
  }
  REFUSED(hf_kernel_times_get(times, size, &kernel, &launches, &ns), HF_ERROR_USAGE,
          "there is no entry");
  REFUSED(hf_kernel_times_get(NULL, 0, &kernel, &launches, &ns), HF_ERROR_USAGE, "NULL");
  REFUSED(hf_kernel_times_size(times, NULL), HF_ERROR_USAGE, "size is NULL");
  REFUSED(hf_device_kernel_times(NULL, &times), HF_ERROR_USAGE, "device is NULL");
  hf_kernel_times_release(times);
  hf_stats stats = {.struct_size = sizeof stats};
  OK(hf_device_get_stats(device, &stats));
  CHECK(stats.kernel_variants == 1 && stats.kernel_misses >= 1);
  OK(hf_device_clear_kernels(device));
  OK(hf_device_get_stats(device, &stats));
  CHECK(stats.kernel_variants == 0);
  OK(hf_device_set_kernel_limits(device, 1, 1 << 20));
  REFUSED(hf_device_set_kernel_limits(NULL, 1, 1), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_clear_kernels(NULL), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_set_profiling(NULL, 1), HF_ERROR_USAGE, "device is NULL");
  hf_stream_release(stream);
  hf_device_release(device);
}

static void a_closed_device_refuses_and_its_handles_can_be_released(void) {
  hf_device* device = NULL;
  OK(hf_device_open(hf_str("cpu"), NULL, &device));
  hf_stream* stream = NULL;
  OK(hf_stream_create(device, hf_str("late"), &stream));
  hf_array *computed = NULL, *lazy = NULL, *made = UNTOUCHED(hf_array);
  OK(hf_ones(thousand, 1, HF_FLOAT32, stream, &computed));
  OK(hf_eval(&computed, 1, HF_FOREVER));
  OK(hf_binary(HF_ADD, hf_of(computed), hf_number(hf_int32(1)), NULL, &lazy));
  OK(hf_device_close(device));
  OK(hf_device_close(device));
  REFUSED(hf_eval(&lazy, 1, HF_FOREVER), HF_ERROR_CLOSED, "");
  float values[1000];
  REFUSED(hf_array_read(computed, HF_FOREVER, values, sizeof values), HF_ERROR_CLOSED, "");
  REFUSED(hf_array_create(HF_FLOAT32, thousand, 1, values, sizeof values, stream, &made),
          HF_ERROR_CLOSED, "");
  hf_stream* late = UNTOUCHED(hf_stream);
  REFUSED(hf_stream_create(device, hf_str("later"), &late), HF_ERROR_CLOSED, "");
  REFUSED(hf_stream_synchronize(stream, HF_FOREVER), HF_ERROR_CLOSED, "");
  REFUSED(hf_device_synchronize(device, HF_FOREVER), HF_ERROR_CLOSED, "");
  CHECK(made == UNTOUCHED(hf_array) && late == UNTOUCHED(hf_stream));
  const char* name = NULL;
  OK(hf_stream_name(stream, &name));
  CHECK(same(name, "late"));
  hf_stats stats = {.struct_size = sizeof stats};
  OK(hf_device_get_stats(device, &stats));
  REFUSED(hf_device_close(NULL), HF_ERROR_USAGE, "device is NULL");
  hf_array_release(lazy);
  hf_array_release(computed);
  hf_stream_release(stream);
  hf_device_release(device);
}

static void scopes_say_where_arrays_go(void) {
  hf_device* device = NULL;
  OK(hf_device_get(hf_str("cpu"), &device));
  hf_stream *outer = NULL, *inner = NULL, *found = NULL;
  OK(hf_stream_create(device, hf_str("outer"), &outer));
  OK(hf_stream_create(device, hf_str("inner"), &inner));
  CHECK(hf_stream_retain(inner) == inner);
  hf_stream_release(inner);
  hf_stream_scope *first = NULL, *second = NULL;
  OK(hf_stream_scope_begin(outer, &first));
  OK(hf_stream_scope_begin(inner, &second));
  hf_array* a = NULL;
  OK(hf_ones(thousand, 1, HF_FLOAT32, NULL, &a));
  OK(hf_array_stream(a, &found));
  int32_t equal = 0;
  OK(hf_stream_equal(found, inner, &equal));
  CHECK(equal == 1);
  hf_stream_release(found);
  hf_array_release(a);
  hf_stream_scope_end(first);
  hf_stream_scope_end(second);
  OK(hf_ones(thousand, 1, HF_FLOAT32, NULL, &a));
  OK(hf_array_stream(a, &found));
  OK(hf_stream_equal(found, inner, &equal));
  CHECK(equal == 0);
  hf_stream_release(found);
  hf_array_release(a);
  hf_device* of = NULL;
  OK(hf_stream_device(inner, &of));
  OK(hf_device_equal(of, device, &equal));
  CHECK(equal == 1);
  hf_device_release(of);

  second = UNTOUCHED(hf_stream_scope);
  REFUSED(hf_stream_scope_begin(NULL, &second), HF_ERROR_USAGE, "stream is NULL");
  REFUSED(hf_stream_scope_begin(inner, NULL), HF_ERROR_USAGE, "scope is NULL");
  REFUSED(hf_stream_create(NULL, hf_str(""), &found), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_device_default_stream(NULL, &found), HF_ERROR_USAGE, "device is NULL");
  REFUSED(hf_stream_equal(NULL, inner, &equal), HF_ERROR_USAGE, "a is NULL");
  REFUSED(hf_stream_device(NULL, &of), HF_ERROR_USAGE, "stream is NULL");
  const char* name = NULL;
  REFUSED(hf_stream_name(NULL, &name), HF_ERROR_USAGE, "stream is NULL");
  REFUSED(hf_stream_name(inner, NULL), HF_ERROR_USAGE, "name is NULL");
  REFUSED(hf_stream_flush(NULL), HF_ERROR_USAGE, "stream is NULL");
  REFUSED(hf_stream_synchronize(NULL, 0), HF_ERROR_USAGE, "stream is NULL");
  REFUSED(hf_stream_wait_for(inner, NULL), HF_ERROR_USAGE, "other is NULL");
  REFUSED(hf_stream_wait_for(NULL, inner), HF_ERROR_USAGE, "stream is NULL");
  CHECK(second == UNTOUCHED(hf_stream_scope));
  hf_stream_release(outer);
  hf_stream_release(inner);
  hf_device_release(device);
}

// Two threads, each with a stream, read one array and what the other has made of it.
typedef struct worker {
  hf_device* device;
  hf_array* shared;
  hf_array* made;
  double number;
} worker;

static void* work(void* argument) {
  worker* const w = argument;
  hf_stream* stream = NULL;
  OK(hf_stream_create(w->device, hf_str("worker"), &stream));
  hf_stream_scope* scope = NULL;
  OK(hf_stream_scope_begin(stream, &scope));
  hf_array* x = hf_array_retain(w->shared);
  for (int i = 0; i < 100; ++i) {
    hf_array* next = NULL;
    OK(hf_binary(HF_ADD, hf_of(x), hf_number(hf_float64(w->number)), NULL, &next));
    hf_array_release(x);
    x = next;
    if (i % 10 == 0) OK(hf_async_eval(&x, 1));
  }
  w->made = x;
  OK(hf_stream_flush(stream));
  hf_stream_scope_end(scope);
  hf_stream_release(stream);
  return NULL;
}

static void two_threads_share_arrays_and_devices(void) {
  worker workers[2] = {{.number = 1}, {.number = 2}};
  pthread_t threads[2];
  OK(hf_device_get(hf_str("cpu"), &workers[0].device));
  workers[1].device = hf_device_retain(workers[0].device);
  OK(hf_ones(thousand, 1, HF_FLOAT32, NULL, &workers[0].shared));
  workers[1].shared = workers[0].shared;
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  hf_array_release(workers[0].shared);
  hf_array *sum = NULL, *most = NULL;
  OK(hf_binary(HF_ADD, hf_of(workers[0].made), hf_of(workers[1].made), NULL, &sum));
  OK(hf_reduce(HF_MAX, sum, NULL, 0, 0, NULL, &most));
  SHOWS(most, "array(302, dtype=float32)");
  hf_array_release(sum);
  for (int i = 0; i < 2; ++i) {
    hf_array_release(workers[i].made);
    hf_device_release(workers[i].device);
  }
}

static void* end_scope(void* scope) {
  hf_stream_scope_end(scope);
  return NULL;
}

static void streams_wait_for_each_other_and_scopes_end_anywhere(void) {
  hf_device* device = NULL;
  OK(hf_device_get(hf_str("cpu"), &device));
  hf_stream *one = NULL, *two = NULL;
  OK(hf_stream_create(device, hf_str("one"), &one));
  OK(hf_stream_create(device, hf_str(""), &two));
  hf_array* a = NULL;
  OK(hf_ones(thousand, 1, HF_FLOAT32, one, &a));
  OK(hf_async_eval(&a, 1));
  OK(hf_stream_wait_for(two, one));
  OK(hf_stream_synchronize(two, HF_FOREVER));
  OK(hf_stream_synchronize(one, HF_FOREVER));
  hf_array_release(a);
  hf_stream_scope* scope = NULL;
  OK(hf_stream_scope_begin(two, &scope));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_scope, scope) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(hf_ones(thousand, 1, HF_FLOAT32, NULL, &a));
  hf_stream* found = NULL;
  int32_t equal = 1;
  OK(hf_array_stream(a, &found));
  OK(hf_stream_equal(found, two, &equal));
  CHECK(equal == 0);
  hf_stream_release(found);
  hf_array_release(a);
  hf_stream_release(one);
  hf_stream_release(two);
  hf_device_release(device);
}

const test device_tests[] = {
    {"devices_are_found_by_name", devices_are_found_by_name},
    {"devices_are_listed", devices_are_listed},
    {"devices_say_what_they_are", devices_say_what_they_are},
    {"memory_is_limited_and_an_evaluation_that_found_none_can_be_made_again",
     memory_is_limited_and_an_evaluation_that_found_none_can_be_made_again},
    {"kernels_are_kept_dropped_and_measured", kernels_are_kept_dropped_and_measured},
    {"a_closed_device_refuses_and_its_handles_can_be_released",
     a_closed_device_refuses_and_its_handles_can_be_released},
    {"scopes_say_where_arrays_go", scopes_say_where_arrays_go},
    {"two_threads_share_arrays_and_devices", two_threads_share_arrays_and_devices},
    {"streams_wait_for_each_other_and_scopes_end_anywhere",
     streams_wait_for_each_other_and_scopes_end_anywhere},
    {NULL, NULL}};
