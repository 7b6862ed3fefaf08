// What stops_in_a_kernel runs under gdb: one kernel from a file, one from a text in the program.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "holdfast/hal/devices.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"

int main(int argc, char** argv) {
  using namespace holdfast;
  if (argc != 2) return 2;
  const Kernel from_file({.name = "from_file", .inputs = {"x"}, .outputs = {"y"}, .file = argv[1]});
  const Kernel from_text({.name = "from_text",
                          .inputs = {"x"},
                          .outputs = {"y"},
                          .source = R"(threadgroup float tile[4];
uint t = thread_index_in_threadgroup;
tile[t] = x[t];
threadgroup_barrier(mem_flags::mem_threadgroup);
float other = tile[3 - t];
y[t] = other;
)"});
  const auto context = runtime::Context::create(hal::open_device("cpu").or_raise());
  const auto stream = context->new_stream();
  kernel::KernelRuntime kernels(context);
  const std::array<int64_t, 1> shape{4};
  const auto x = stream->allocate({16}, "x");
  const auto y = stream->allocate({16}, "y");
  std::vector<float> numbers{10, 20, 30, 40};
  stream->upload(x, {}, std::as_bytes(std::span(numbers)));
  float sum = 0;
  for (const Kernel* each : {&from_file, &from_text}) {
    const std::array<kernel::ArrayRef, 1> inputs{
        kernel::ArrayRef(x, kernel::Dtype::float32, shape)};
    const std::array<kernel::ArrayRef, 1> outputs{
        kernel::ArrayRef(y, kernel::Dtype::float32, shape)};
    kernels.launch(*stream, *each,
                   {.inputs = inputs, .outputs = outputs, .grid = {4}, .threadgroup = {4}});
    stream->readback(y, {}, std::as_writable_bytes(std::span(numbers)));
    for (const float number : numbers) sum += number;
  }
  std::printf("sum %g\n", static_cast<double>(sum));
  return sum == 404 ? 0 : 1;
}
