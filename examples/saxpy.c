#include <holdfast/c/holdfast.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program with the words of an error.
static void need(hf_status status) {
  if (status == HF_OK) return;
  fprintf(stderr, "%s error: %s\n", hf_status_name(status), hf_last_error());
  exit(1);
}

int main(void) {
  const hf_text inputs[] = {HF_TEXT("x"), HF_TEXT("y")};
  const hf_text outputs[] = {HF_TEXT("z")};
  const hf_kernel_definition definition = {
      .struct_size = sizeof definition,
      .name = HF_TEXT("saxpy"),
      .inputs = inputs,
      .input_count = 2,
      .outputs = outputs,
      .output_count = 1,
      .source = HF_TEXT("uint i = thread_position_in_grid.x; z[i] = a * x[i] + y[i];"),
  };
  hf_kernel* saxpy = NULL;
  need(hf_kernel_create(&definition, &saxpy));

  const int64_t shape[] = {6};
  hf_array* xy[2] = {NULL, NULL};
  need(hf_arange(0, 6, 1, HF_FLOAT32, NULL, &xy[0]));
  need(hf_ones(shape, 1, HF_FLOAT32, NULL, &xy[1]));
  const hf_output output = {.shape = shape, .ndim = 1, .dtype = HF_FLOAT32};
  const hf_param params[] = {{HF_TEXT("a"), hf_float32(2)}};
  const hf_kernel_call call = {
      .struct_size = sizeof call,
      .inputs = xy,
      .input_count = 2,
      .outputs = &output,
      .output_count = 1,
      .grid = {6, 1, 1},  // threads
      .threadgroup = {6, 1, 1},
      .params = params,
      .param_count = 1,
  };
  hf_array* z = NULL;
  need(hf_kernel_run(saxpy, &call, 1, &z));
  need(hf_async_eval(&z, 1));  // recorded and submitted; nothing waits
  hf_array_release(xy[0]);     // dropped in flight: their memory stays
  hf_array_release(xy[1]);
  hf_kernel_release(saxpy);

  char* text = NULL;
  need(hf_array_to_text(z, HF_FOREVER, &text));  // waits for z alone
  puts(text);
  hf_free(text);
  float values[6];
  need(hf_array_read(z, HF_FOREVER, values, sizeof values));
  hf_array_release(z);
  return values[5] == 11 ? 0 : 1;
}
