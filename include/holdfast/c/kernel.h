#pragma once

#include "holdfast/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

// A kernel written as text, in the language of docs/kernels.md: a checked definition with an
// identity of its own. Immutable.
typedef struct hf_kernel hf_kernel;

// Threads along each axis: of a grid, or of a threadgroup.
typedef struct hf_size3 {
  uint32_t x;
  uint32_t y;
  uint32_t z;
} hf_size3;

typedef int32_t hf_native_kind;
enum {
  HF_NATIVE_CPP = 0,    // text
  HF_NATIVE_CUDA = 1,   // text
  HF_NATIVE_GLSL = 2,   // text
  HF_NATIVE_SPIRV = 3,  // a module
  HF_NATIVE_PTX = 4,    // text
  HF_NATIVE_CUBIN = 5   // a module
};
// Code for one kind of device, which uses it instead of the body.
typedef struct hf_native {
  size_t struct_size;
  hf_native_kind kind;
  uint32_t addresses;   // glsl, spirv: 1: memory by 64-bit addresses; 0: by descriptors
  const void* code;     // text without a terminator, or a module
  size_t code_size;     // in bytes
  hf_text entry_point;  // empty: "main"
  const hf_text*
      bindings;          // arguments in the order of the code's bindings; none: inputs, in_place,
  size_t binding_count;  // outputs
  const hf_text* constants;  // glsl, spirv: names of the specialization constants 0, 1, ...
  size_t constant_count;
  hf_size3 threadgroup;    // the threads of its group; all zero: any, or as the module says
  hf_size3 cluster;        // cuda, ptx, cubin: groups that run together; all zero: one
  uint64_t shared_memory;  // cuda, ptx, cubin: bytes of a group, besides what the code declares
  uint32_t cooperative;    // cuda, ptx, cubin: 1: all groups run at once
} hf_native;

typedef int32_t hf_math_mode;
enum {
  HF_MATH_SAFE = 0,
  HF_MATH_FAST = 1  // as -ffast-math
};
enum {
  HF_KERNEL_ATOMIC_OUTPUTS = 1,  // outputs are pointers to atomic<T>
  HF_KERNEL_STRIDED_INPUTS = 2,  // inputs are taken as they lie, not copied to be row-contiguous
  HF_KERNEL_VERBOSE = 4          // generated text is logged when it is compiled
};
typedef struct hf_kernel_definition {
  size_t struct_size;
  hf_text name;
  const hf_text* inputs;
  size_t input_count;
  const hf_text* outputs;
  size_t output_count;
  const hf_text* in_place;  // arguments that the kernel reads and writes
  size_t in_place_count;
  hf_text source;  // the body
  hf_text header;  // before it, at namespace scope
  hf_text file;    // has the body, if `source` is empty; messages name it
  const hf_native* const* natives;
  size_t native_count;
  hf_math_mode math;
  uint32_t flags;  // HF_KERNEL_*, added
} hf_kernel_definition;
// HF_ERROR_USAGE says what is wrong with the definition. Copies it; compiles nothing.
HF_API hf_status hf_kernel_create(const hf_kernel_definition* definition, hf_kernel** kernel);
HF_API hf_kernel* hf_kernel_retain(hf_kernel* kernel);
HF_API void hf_kernel_release(hf_kernel* kernel);
// Valid as long as the handle.
HF_API hf_status hf_kernel_name(hf_kernel* kernel, const char** name);

// An output of a call.
typedef struct hf_output {
  const int64_t* shape;
  size_t ndim;
  hf_dtype dtype;
} hf_output;
// A value that is compiled in: each makes a variant of its own.
typedef int32_t hf_constant_kind;
enum { HF_CONSTANT_BOOL = 0, HF_CONSTANT_INT = 1, HF_CONSTANT_DTYPE = 2 };
typedef struct hf_constant {
  hf_text name;
  int64_t value;  // a bool's 0 or 1, an integer, or a hf_dtype
  hf_constant_kind kind;
} hf_constant;
// A value at run time: a new one compiles nothing.
typedef struct hf_param {
  hf_text name;
  hf_scalar value;
} hf_param;
typedef int32_t hf_layouts;
enum {
  HF_LAYOUTS_DEFAULT = 0,         // as the kernel's definition says
  HF_LAYOUTS_ROW_CONTIGUOUS = 1,  // inputs that are not row-contiguous are copied first
  HF_LAYOUTS_AS_THEY_LIE = 2
};
typedef struct hf_kernel_call {
  size_t struct_size;
  hf_array* const* inputs;
  size_t input_count;
  const hf_output* outputs;
  size_t output_count;
  // The kernel works in these arrays' own memory if nobody else can see it once this runs (release
  // your handles before you evaluate), and in a copy otherwise. Their results follow the outputs.
  hf_array* const* in_place;
  size_t in_place_count;
  hf_size3 grid;         // threads: no surplus thread exists
  hf_size3 threadgroup;  // threads
  const hf_constant* constants;
  size_t constant_count;
  const hf_param* params;
  size_t param_count;
  const hf_scalar* init_value;  // of every output element before the kernel runs; NULL: any
  hf_text label;                // appears in every error and report of this call
  hf_stream* stream;            // may be NULL: see holdfast/c/array.h
  hf_layouts layouts;
} hf_kernel_call;
// Calls the kernel: builds one node, and writes output_count + in_place_count arrays to `results`;
// `count` is how many you have room for, and must be that number. HF_ERROR_USAGE for what can be
// seen without compiling. Evaluating a result gives compile errors, with a caret under your text.
HF_API hf_status hf_kernel_run(hf_kernel* kernel, const hf_kernel_call* call, size_t count,
                               hf_array** results);
// Compiles what the call needs, unless that was done, and runs nothing. Waits for the compiler.
HF_API hf_status hf_kernel_warm_up(hf_kernel* kernel, const hf_kernel_call* call);
// The text that the call is compiled from, with its preamble; you free it with hf_free.
HF_API hf_status hf_kernel_text(hf_kernel* kernel, const hf_kernel_call* call, char** text);

#ifdef __cplusplus
}
#endif
