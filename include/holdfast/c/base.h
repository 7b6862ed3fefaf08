#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "holdfast/version.h"

// Holdfast for C, and for languages that call C. These rules hold for every function of
// holdfast/c/*.h; a function's comment says where it differs.
//
// Handles. Objects are pointers to opaque structs, each with a count of its owners. A function that
// gives you a handle gives you one count; hf_X_release drops one and hf_X_retain adds one.
// Releasing NULL does nothing. Functions borrow the handles, texts and arrays that they are given
// for the call, and keep what they need longer themselves. Using a handle after its last release is
// undefined; passing a handle of another kind is refused where it can be seen.
//
// Errors. A function that can fail returns a hf_status: HF_OK, or what went wrong. hf_last_error()
// then has the words. A function that failed took over nothing that was given to it and left its
// out-parameters, which come last, as they were. NULL is refused where a pointer is needed. No C++
// exception leaves a function.
//
// Threads. Any thread may call any function with any handle, also with one that others use. Threads
// must not be cancelled (pthread_cancel) inside a call. In a forked child, handles of the parent
// are refused.
//
// Waits. A function waits for a device only if its comment says so, and such waits take a time
// limit. Functions that build arrays compute nothing. An evaluation may wait for a compiler or for
// another thread that records the same array; and, as everything that needs memory at once
// (hf_array_create), until memory is free. hf_device_waits counts all of it.
//
// Cost. A call costs what it does, and an allocation for each handle that it gives you. Retaining
// and releasing are an atomic operation each; the last release also frees.
//
// Structs with `struct_size` may grow in later versions. Set it to sizeof, and all else that you do
// not use to zero. All other structs stay as they are.

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. It grows by one whenever functions, fields or codes are added.
// From release 1.0 on, nothing is taken away or changed: see docs/versions.md.
#define HF_ABI_VERSION 1
// The version of the library that runs: at least the HF_ABI_VERSION you were compiled with, or
// functions that you call may be missing.
HF_API uint32_t hf_abi_version(void);
// Of the library that runs: major * 1000000 + minor * 1000 + patch. HOLDFAST_VERSION_MAJOR, _MINOR
// and _PATCH are the headers'.
HF_API uint32_t hf_version(void);

typedef int32_t hf_status;
enum {
  HF_OK = 0,
  HF_ERROR_USAGE = 1,          // you asked for something the contract forbids
  HF_ERROR_UNSUPPORTED = 2,    // the device cannot do it
  HF_ERROR_OUT_OF_MEMORY = 3,  // no memory within the limits, after all that could be freed was
  HF_ERROR_EXECUTION = 4,      // work failed on the device
  HF_ERROR_DEVICE_LOST = 5,    // the device is gone; everything pending on it failed
  HF_ERROR_CLOSED = 6,         // the device was closed, or main has returned
  HF_ERROR_TIMEOUT = 7,        // a wait reached its time limit
  HF_ERROR_INTERRUPTED = 8,    // hf_interrupt_waits ended the wait
  HF_ERROR_ENVIRONMENT = 9,    // a variable, a file or a thread could not be had
  HF_ERROR_UNKNOWN = 10        // an error of the library that has no code; please report it
};
// "usage", "out of memory"; "unknown" for a number that is no status. Never freed.
HF_API const char* hf_status_name(hf_status status);
// What the last call of this thread that failed said: what happened, to which named object, and
// what to do. Empty if none has failed. Valid until the thread's next failing call; never NULL.
HF_API const char* hf_last_error(void);
// The status of that call; HF_OK if none has failed.
HF_API hf_status hf_last_status(void);

// How long a call may wait, in nanoseconds; zero does not wait. HF_ERROR_TIMEOUT loses nothing: the
// same wait can be made again.
typedef int64_t hf_timeout;
#define HF_FOREVER ((hf_timeout)-1)
// Ends every wait in the process that is under way with HF_ERROR_INTERRUPTED. Async-signal-safe:
// call it from a SIGINT handler.
HF_API void hf_interrupt_waits(void);

// Frees a text that a function gave you to own. NULL does nothing.
HF_API void hf_free(char* text);

// So many bytes of text; no terminator is looked for. NULL is the empty text if the length is zero.
// A zero byte inside is refused.
typedef struct hf_text {
  const char* data;
  size_t length;
} hf_text;
// A literal, for initializers: const hf_text names[] = {HF_TEXT("x"), HF_TEXT("y")};
#define HF_TEXT(literal) \
  { (literal), sizeof(literal) - 1 }
// A text with a terminator.
static inline hf_text hf_str(const char* text) {
  const hf_text made = {text, text != NULL ? strlen(text) : 0};
  return made;
}

typedef int32_t hf_dtype;
enum {
  HF_BOOL = 0,  // one byte, 0 or 1
  HF_INT8 = 1,
  HF_UINT8 = 2,
  HF_INT16 = 3,
  HF_UINT16 = 4,
  HF_INT32 = 5,
  HF_UINT32 = 6,
  HF_INT64 = 7,
  HF_UINT64 = 8,
  HF_FLOAT16 = 9,
  HF_BFLOAT16 = 10,
  HF_FLOAT32 = 11,
  HF_FLOAT64 = 12
};
// In bytes.
HF_API hf_status hf_dtype_size(hf_dtype dtype, size_t* size);
// "float16". Never freed.
HF_API hf_status hf_dtype_name(hf_dtype dtype, const char** name);
// The dtype of a result computed from both.
HF_API hf_status hf_dtype_promote(hf_dtype a, hf_dtype b, hf_dtype* promoted);

// One value: the low bytes of `bits`, as the dtype lays them out.
typedef struct hf_scalar {
  uint64_t bits;
  hf_dtype dtype;
} hf_scalar;
static inline hf_scalar hf_bool(int value) {
  const hf_scalar made = {value != 0, HF_BOOL};
  return made;
}
static inline hf_scalar hf_int32(int32_t value) {
  const hf_scalar made = {(uint32_t)value, HF_INT32};
  return made;
}
static inline hf_scalar hf_uint32(uint32_t value) {
  const hf_scalar made = {value, HF_UINT32};
  return made;
}
static inline hf_scalar hf_int64(int64_t value) {
  const hf_scalar made = {(uint64_t)value, HF_INT64};
  return made;
}
static inline hf_scalar hf_uint64(uint64_t value) {
  const hf_scalar made = {value, HF_UINT64};
  return made;
}
static inline hf_scalar hf_float32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const hf_scalar made = {bits, HF_FLOAT32};
  return made;
}
static inline hf_scalar hf_float64(double value) {
  hf_scalar made = {0, HF_FLOAT64};
  memcpy(&made.bits, &value, sizeof made.bits);
  return made;
}

// More axes are refused everywhere.
#define HF_MAX_DIMS 8

#ifdef __cplusplus
}
#endif
