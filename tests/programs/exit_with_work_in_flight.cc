// Leaves main while two threads keep submitting: the process must end by itself, cleanly, with
// status 0.
#include <holdfast/runtime.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

namespace hf = holdfast;

namespace {

std::atomic<int> submitted{0};

void keep_submitting(const hf::Ref<hf::runtime::Context>& context) {
  try {
    const auto stream = context->new_stream();
    const auto kernel = context->create_pipeline(
        {"count",
         hf::hal::HostFunction([](const hf::hal::HostGroup& g) { ++g.binding<uint32_t>(0)[0]; }), 1,
         hf::Bytes{}});
    for (;;) {
      const auto memory = stream->allocate(hf::Bytes{4096}, "scratch");
      stream->fill(hf::hal::Binding::of(memory, hf::hal::Access::write), std::byte{});
      stream->dispatch(kernel,
                       std::array{hf::hal::Binding::of(memory, hf::hal::Access::read_write)}, {},
                       {1, 1, 1});
      stream->flush();
      submitted.fetch_add(1);
      submitted.notify_all();
    }
  } catch (const hf::ClosedError&) {
    // What a thread is told that outlives main.
  } catch (const hf::Error& error) {
    std::fprintf(stderr, "unexpected: %s\n", error.what());
    std::_Exit(1);
  }
}

}  // namespace

int main() {
  const auto context = hf::runtime::Context::create(hf::hal::open_device("cpu").or_raise());
  for (int i = 0; i < 2; ++i) std::thread(keep_submitting, context).detach();
  for (int seen = submitted.load(); seen < 100; seen = submitted.load()) submitted.wait(seen);
  std::puts("leaving main with work in flight");
  return 0;
}
