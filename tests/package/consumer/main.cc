#include <holdfast/runtime.h>

#include <array>
#include <cstdio>
#include <vector>

namespace hf = holdfast;
using hf::hal::Access;
using hf::hal::Binding;

int main() try {
  auto context = hf::runtime::Context::create(hf::hal::open_device("cpu").or_raise());
  auto stream = context->new_stream({.name = "main"});
  auto add = context->create_pipeline({
      .name = "add",
      .module = hf::hal::HostFunction([](const hf::hal::HostGroup& g) {
        const uint32_t i = g.group.x;
        g.binding<float>(2)[i] = g.binding<float>(0)[i] + g.binding<float>(1)[i];
      }),
      .bindings = 3,
  });

  std::vector<float> ones(1000, 1.0F);
  std::vector<float> sums(1000);
  const hf::Bytes size{ones.size() * sizeof(float)};
  auto a = stream->allocate(size, "a");
  auto b = stream->allocate(size, "b");
  auto sum = stream->allocate(size, "sum");
  stream->upload(a, {}, std::as_bytes(std::span(ones)));  // owned before it returns
  stream->upload(b, {}, std::as_bytes(std::span(ones)));
  stream->dispatch(add,
                   std::array{Binding::of(a, Access::read), Binding::of(b, Access::read),
                              Binding::of(sum, Access::write)},
                   {}, {1000, 1, 1});
  stream->flush();  // submitted; nothing waits
  a.reset();        // in flight, so its memory stays
  b.reset();
  stream->readback(sum, {}, std::as_writable_bytes(std::span(sums)));  // waits for `sum` alone

  std::printf("sum[0] = %g\n%s", sums[0], hf::runtime::to_string(context->stats()).c_str());
  std::puts(sums[0] == 2.0F && sums[999] == 2.0F ? "ok" : "wrong");
} catch (const hf::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
