#include <stddef.h>

#include "check.h"

// What binaries that were compiled with version 1 of the headers rely on, where pointers have 64
// bits. A struct with a struct_size may grow at its end; nothing else of it changes.
typedef struct place {
  const char* what;
  size_t found;
  size_t wanted;
} place;
#define SIZE(type, wanted) \
  { "sizeof(" #type ")", sizeof(type), wanted }
#define AT(type, field, wanted) \
  { #type "." #field, offsetof(type, field), wanted }

static void layouts_of_structs_are_those_of_version_1(void) {
  if (sizeof(void*) != 8) return;
  const place places[] = {
      SIZE(hf_text, 16),
      AT(hf_text, length, 8),
      SIZE(hf_scalar, 16),
      AT(hf_scalar, dtype, 8),
      SIZE(hf_term, 24),
      AT(hf_term, number, 8),
      SIZE(hf_slice, 24),
      AT(hf_slice, stop, 8),
      AT(hf_slice, step, 16),
      SIZE(hf_size3, 12),
      SIZE(hf_output, 24),
      AT(hf_output, ndim, 8),
      AT(hf_output, dtype, 16),
      SIZE(hf_constant, 32),
      AT(hf_constant, value, 16),
      AT(hf_constant, kind, 24),
      SIZE(hf_param, 32),
      AT(hf_param, value, 16),
      SIZE(hf_device_options, 72),
      AT(hf_device_options, submit_time_ns, 64),
      SIZE(hf_device_info, 40),
      AT(hf_device_info, many_weak_threads, 36),
      SIZE(hf_stats, 256),
      AT(hf_stats, early_submits, 248),
      SIZE(hf_native, 120),
      AT(hf_native, code, 16),
      AT(hf_native, entry_point, 32),
      AT(hf_native, threadgroup, 80),
      AT(hf_native, cooperative, 112),
      SIZE(hf_kernel_definition, 144),
      AT(hf_kernel_definition, source, 72),
      AT(hf_kernel_definition, natives, 120),
      AT(hf_kernel_definition, flags, 140),
      SIZE(hf_kernel_call, 152),
      AT(hf_kernel_call, grid, 56),
      AT(hf_kernel_call, init_value, 112),
      AT(hf_kernel_call, layouts, 144),
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
    if (places[i].found == places[i].wanted) continue;
    fprintf(stderr, "%s is %zu, not %zu\n", places[i].what, places[i].found, places[i].wanted);
    ++wrong;
  }
  CHECK(wrong == 0);
}

const test abi_tests[] = {
    {"layouts_of_structs_are_those_of_version_1", layouts_of_structs_are_those_of_version_1},
    {NULL, NULL}};
