// Leaves main with work in flight, with a thread that goes on evaluating, and with handles that
// nobody releases; an exit handler calls into the library after it was closed. The process must
// end by itself, with status 0.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>

#include "check.h"

static const int64_t shape[] = {1 << 16};
static hf_array* in_flight;
static hf_array* lazy;
static int evaluated;

static void* keep_evaluating(void* unused) {
  (void)unused;
  hf_array* x = NULL;
  hf_status status = hf_ones(shape, 1, HF_FLOAT32, NULL, &x);
  while (status == HF_OK) {
    hf_array* next = NULL;
    status = hf_binary(HF_ADD, hf_of(x), hf_number(hf_int32(1)), NULL, &next);
    if (status != HF_OK) break;
    hf_array_release(x);
    x = next;
    status = hf_async_eval(&x, 1);
    __atomic_add_fetch(&evaluated, 1, __ATOMIC_ACQ_REL);
  }
  CHECK(status == HF_ERROR_CLOSED);
  hf_array_release(x);
  return NULL;
}

// Registered first, so it runs last: after the library has closed its devices, and after the main
// thread's thread-locals are gone.
static void last(void) {
  REFUSED(hf_eval(&lazy, 1, HF_FOREVER), HF_ERROR_CLOSED, "closed");
  static char name[2000];
  memset(name, 'x', sizeof name);
  const hf_text text = {name, sizeof name};
  hf_device* device = NULL;
  CHECK(hf_device_get(text, &device) != HF_OK);
  CHECK(hf_last_error()[0] != '\0' && strlen(hf_last_error()) < sizeof name);
  hf_array_release(lazy);
}

int main(void) {
  CHECK(atexit(last) == 0);
  // Words that are kept in memory of their own, which the main thread frees when it ends.
  static char name[2000];
  memset(name, 'y', sizeof name);
  const hf_text text = {name, sizeof name};
  hf_device* device = NULL;
  REFUSED(hf_device_get(text, &device), HF_ERROR_USAGE, "yyy");
  OK(hf_ones(shape, 1, HF_FLOAT32, NULL, &in_flight));
  for (int i = 0; i < 200; ++i) {
    hf_array* next = NULL;
    OK(hf_binary(HF_ADD, hf_of(in_flight), hf_number(hf_int32(1)), NULL, &next));
    hf_array_release(in_flight);
    in_flight = next;
  }
  OK(hf_binary(HF_ADD, hf_of(in_flight), hf_number(hf_int32(1)), NULL, &lazy));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, keep_evaluating, NULL) == 0);
  CHECK(pthread_detach(thread) == 0);
  while (__atomic_load_n(&evaluated, __ATOMIC_ACQUIRE) < 100) sched_yield();
  OK(hf_async_eval(&in_flight, 1));
  puts("leaving main with work in flight");
  return 0;
}
