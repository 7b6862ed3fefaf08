#pragma once

#include <holdfast/c/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Each ends the program where something is not so.
#define CHECK(condition) \
  ((condition) ? (void)0 : not_so(__FILE__, __LINE__, #condition, "", __func__))
#define OK(call)             \
  ((call) == HF_OK ? (void)0 \
                   : not_so(__FILE__, __LINE__, #call " succeeds", hf_last_error(), __func__))
// The call fails with that status, and its message has these words.
#define REFUSED(call, status, words) \
  refused(__FILE__, __LINE__, #call, __func__, (call), status, words)

static inline void not_so(const char* file, int line, const char* what, const char* why,
                          const char* test) {
  fprintf(stderr, "%s:%d: not so, in %s: %s\n  %s\n", file, line, test, what, why);
  abort();
}

static inline void refused(const char* file, int line, const char* call, const char* test,
                           hf_status found, hf_status wanted, const char* words) {
  if (found != wanted) {
    fprintf(stderr, "status %s: %s\n", hf_status_name(found),
            found != HF_OK ? hf_last_error() : "");
    not_so(file, line, call, "fails with another status", test);
  }
  if (strstr(hf_last_error(), words) == NULL) not_so(file, line, words, hf_last_error(), test);
  if (hf_last_status() != wanted) not_so(file, line, call, "hf_last_status differs", test);
}

// A float32 array with one axis.
static inline hf_array* floats(const float* values, size_t count) {
  const int64_t shape[] = {(int64_t)count};
  hf_array* made = NULL;
  OK(hf_array_create(HF_FLOAT32, shape, 1, values, count * sizeof(float), NULL, &made));
  return made;
}
// 0, 1, ... of any shape.
static inline hf_array* counted(hf_dtype dtype, const int64_t* shape, size_t ndim) {
  int64_t count = 1;
  for (size_t i = 0; i < ndim; ++i) count *= shape[i];
  hf_array* flat = NULL;
  hf_array* made = NULL;
  OK(hf_arange(0, (double)count, 1, dtype, NULL, &flat));
  OK(hf_reshape(flat, shape, ndim, NULL, &made));
  hf_array_release(flat);
  return made;
}
// The array as text, in a buffer of the function's own; releases the array.
static inline const char* shown(hf_array* array) {
  static char buffer[4096];
  char* text = NULL;
  OK(hf_array_to_text(array, HF_FOREVER, &text));
  snprintf(buffer, sizeof buffer, "%s", text);
  hf_free(text);
  hf_array_release(array);
  return buffer;
}
static inline int same(const char* a, const char* b) {
  if (strcmp(a, b) == 0) return 1;
  fprintf(stderr, "found:  %s\nwanted: %s\n", a, b);
  return 0;
}
#define SHOWS(array, text) CHECK(same(shown(array), text))

// For arguments that must not be looked at or changed.
#define UNTOUCHED(type) ((type*)(uintptr_t)0x51)

typedef struct test {
  const char* name;
  void (*run)(void);
} test;
// Each file's tests; the last one has no name.
extern const test base_tests[];
extern const test array_tests[];
extern const test op_tests[];
extern const test kernel_tests[];
extern const test device_tests[];
extern const test dlpack_tests[];
extern const test hostile_tests[];
extern const test abi_tests[];
