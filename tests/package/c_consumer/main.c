#include <holdfast/c/holdfast.h>
#include <stdio.h>

int main(void) {
  const hf_text names[] = {HF_TEXT("x"), HF_TEXT("y")};
  const hf_kernel_definition definition = {
      .struct_size = sizeof definition,
      .name = HF_TEXT("twice"),
      .inputs = &names[0],
      .input_count = 1,
      .outputs = &names[1],
      .output_count = 1,
      .source = HF_TEXT("uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"),
  };
  const int64_t shape[] = {1000};
  const hf_output output = {shape, 1, HF_FLOAT32};
  hf_kernel* twice = NULL;
  hf_array *x = NULL, *y = NULL, *sum = NULL;
  hf_scalar item = {0, HF_BOOL};
  hf_status status = hf_kernel_create(&definition, &twice);
  if (status == HF_OK) status = hf_arange(0, 1000, 1, HF_FLOAT32, NULL, &x);
  const hf_kernel_call call = {
      .struct_size = sizeof call,
      .inputs = &x,
      .input_count = 1,
      .outputs = &output,
      .output_count = 1,
      .grid = {1000, 1, 1},
      .threadgroup = {100, 1, 1},
  };
  if (status == HF_OK) status = hf_kernel_run(twice, &call, 1, &y);
  if (status == HF_OK) status = hf_reduce(HF_SUM, y, NULL, 0, 0, NULL, &sum);
  if (status == HF_OK) status = hf_array_item(sum, HF_FOREVER, &item);
  if (status != HF_OK) fprintf(stderr, "error: %s\n", hf_last_error());
  hf_array_release(x);
  hf_array_release(y);
  hf_array_release(sum);
  hf_kernel_release(twice);
  if (status != HF_OK) return 1;
  const uint32_t bits = (uint32_t)item.bits;
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  printf("holdfast %u, C interface %u: the sum is %g\n", (unsigned)hf_version(),
         (unsigned)hf_abi_version(), (double)value);
  puts(value == 999000.0F && hf_abi_version() == HF_ABI_VERSION ? "ok" : "wrong");
  return 0;
}
