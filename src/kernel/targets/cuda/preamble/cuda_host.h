// What stops a kernel on the GPU: a line of text, and a trap, after which the device is lost to the
// process. The generator defines hf_kernel_name.

typedef const char* hf_text;

struct hf_host {
  __device__ __noinline__ static void out_of_bounds(hf_host*, const char* file, unsigned line,
                                                    const char* buffer, long index,
                                                    unsigned long size) {
    printf("kernel '%s', %s:%u: index %ld of buffer '%s' is out of bounds; it has %lu elements\n",
           hf_kernel_name, file, line, index, buffer, size);
    __trap();
  }
  __device__ __noinline__ static void assertion(hf_host*, const char* file, unsigned line,
                                                const char* expression) {
    printf("kernel '%s', %s:%u: assertion failed: %s\n", hf_kernel_name, file, line, expression);
    __trap();
  }
};
constexpr hf_host* hf_this_host = nullptr;
