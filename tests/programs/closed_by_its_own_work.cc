// Leaves main while work in flight owns the last reference to its own device: through a deleter, a
// host function, a native callback. Closing the device drops that work, which closes the device.
// Each process must end by itself, with status 0, and drop what it owned once.
#include <holdfast/holdfast.h>
#include <holdfast/runtime.h>
#include <holdfast/testing/child_process.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace hf = holdfast;
namespace rt = holdfast::runtime;
namespace hal = holdfast::hal;

namespace {

// Whether the list is over by itself when the device is closed, or has to be stopped.
enum class Work { finishes, never_starts };

alignas(4096) float memory[1024];
std::atomic<int> dropped{0};

// Counts the end of whatever captured it.
struct CountsDrop {
  ~CountsDrop() { dropped.fetch_add(1); }
};

// Looks when everything else is over: made first.
bool may_be_left = false;
void check_at_exit() {
  std::atexit([] {
    if (dropped.load() == 1 || (may_be_left && dropped.load() == 0)) return;
    std::fprintf(stderr, "dropped %d times\n", dropped.load());
    std::_Exit(1);
  });
}

rt::Options options(Work work) {
  rt::Options options = rt::Options::from_environment();
  if (work == Work::never_starts) {
    options.shutdown_bound = std::chrono::milliseconds(1);
    options.reaper = false;
  }
  return options;
}

// Everything recorded on the stream from now on is in flight when main returns.
void hold_until_exit(rt::Stream& stream, Work work) {
  static hf::Ref<hal::HostTimeline> gate;
  gate = stream.context()->new_host_timeline("gate");
  stream.wait_for({gate, {1}});
  // Registered after the device was opened, so it is called before that is closed.
  if (work == Work::finishes) std::atexit([] { gate->signal({1}); });
}

int deleter(const std::string& device, Work work) {
  check_at_exit();
  const hf::Device own(hal::open_device(device).or_raise(), {.runtime = options(work)});
  const hf::Array captured(std::vector<float>(1024, 2.0F), {1024}, "captured", own);
  const auto imported =
      own.context()->import({memory, hf::Bytes{sizeof memory},
                             [captured, counts = std::make_shared<CountsDrop>()] {}, "external"});
  rt::Stream& stream = *own.default_stream().runtime_stream();
  hold_until_exit(stream, work);
  stream.fill(hal::Binding::of(imported, hal::Access::write), std::byte{1});
  stream.flush();
  return 0;
}

int deleter_of_an_array(const std::string& device, Work work) {
  check_at_exit();
  const hf::Device own(hal::open_device(device).or_raise(), {.runtime = options(work)});
  const hf::Array captured(std::vector<float>(1024, 2.0F), {1024}, "captured", own);
  const hf::Array external = hf::from_external(
      memory, hf::float32, {1024}, [captured, counts = std::make_shared<CountsDrop>()] {},
      "external", own);
  hold_until_exit(*own.default_stream().runtime_stream(), work);
  hf::async_eval(hf::add(external, captured));
  return 0;
}

int host_function(const std::string& device, Work work) {
  check_at_exit();
  const auto context = rt::Context::create(hal::open_device(device).or_raise(), options(work));
  const auto stream = context->new_stream();
  const auto data = stream->allocate(hf::Bytes{64});
  const auto kernel = context->create_pipeline(
      {"owner",
       hal::HostFunction([stream, counts = std::make_shared<CountsDrop>()](
                             const hal::HostGroup& group) { group.bindings[0][0] = {}; }),
       1,
       {}});
  hold_until_exit(*stream, work);
  stream->dispatch(kernel, std::array{hal::Binding::of(data, hal::Access::write)}, {}, {1, 1, 1});
  stream->flush();
  return 0;
}

int native_callback(const std::string& device, Work work) {
  check_at_exit();
  const auto context = rt::Context::create(hal::open_device(device).or_raise(), options(work));
  const auto stream = context->new_stream();
  hold_until_exit(*stream, work);
  stream->native([stream, counts = std::make_shared<CountsDrop>()](const hal::NativeCall&) {}, {});
  stream->flush();
  return 0;
}

// The callback itself drops the reference, on the thread that runs the list. Where that thread is
// the first to close, it cannot wait for the list, which is left alive then with what it owns.
int native_callback_that_lets_go(const std::string& device, Work work) {
  struct Owner {
    hf::Ref<rt::Stream> stream;
    CountsDrop counts;
  };
  may_be_left = true;
  check_at_exit();
  const auto context = rt::Context::create(hal::open_device(device).or_raise(), options(work));
  auto owner = std::make_shared<Owner>();
  owner->stream = context->new_stream();
  rt::Stream& stream = *owner->stream;
  hold_until_exit(stream, work);
  stream.native([owner](const hal::NativeCall&) { owner->stream.reset(); }, {});
  stream.flush();
  return 0;
}

}  // namespace

int main() {
  std::vector<holdfast::testing::ProcessCase> cases;
  const auto add = [&](const char* name, int (*run)(const std::string&, Work), const char* device) {
    for (const Work work : {Work::finishes, Work::never_starts}) {
      cases.push_back(
          {std::string(name) + " on " + device + (work == Work::finishes ? "" : ", never started"),
           [=] { return run(device, work); }});
    }
  };
  for (const char* device : {"cpu", "adversary(cpu)", "vulkan", "adversary(vulkan)"}) {
    const bool is_vulkan = std::string(device).find("vulkan") != std::string::npos;
    add("a deleter", deleter, device);
    // The kernels of operations, and host functions, run on the CPU alone.
    if (!is_vulkan) {
      add("a deleter of an array", deleter_of_an_array, device);
      add("a host function", host_function, device);
    }
    add("a native callback", native_callback, device);
    add("a native callback that lets go", native_callback_that_lets_go, device);
  }
  return holdfast::testing::run_in_children(cases);
}
