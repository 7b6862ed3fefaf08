// Leaves main with a CUDA device wherever it can be, with every kind of work in flight, before and
// after NVIDIA's driver shuts down, which it does in an exit handler of its own; and forks with a
// device open. On the stub driver. Each process must end by itself, with status 0, and have done
// nothing that a driver leaves undefined.
#include <dlfcn.h>
#include <holdfast/base/sanitizers.h>
#include <holdfast/hal/cuda/cuda_device.h>
#include <holdfast/hal/matrix_products.h>
#include <holdfast/runtime.h>
#include <holdfast/testing/child_process.h>
#include <holdfast/testing/stub_cuda/interface.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hf = holdfast;
namespace hal = holdfast::hal;
namespace rt = holdfast::runtime;

namespace {

enum class Work {
  none,
  runs,         // is being done
  never_ends,   // the driver has it, and never finishes
  never_starts  // waits for what the host never signals
};
enum class Place {
  local,         // gone before any exit handler
  after_driver,  // in a static that is destroyed after the driver has shut down
  before_driver  // in a static that is destroyed before
};

std::string stub_path() {
  if (const char* named = std::getenv("HOLDFAST_STUB_CUDA")) return named;
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() /
          "libholdfast_stub_cuda.so")
      .native();
}

hf::stub_cuda::StubControl* stub = nullptr;

// Looks when everything else is over: made first, so destroyed last.
struct Last {
  hal::Point failed_by_the_driver{};  // if any: since it shut down
  ~Last() {
    const auto require = [](bool holds, const char* what) {
      if (holds) return;
      std::fprintf(stderr, "not so: %s\n", what);
      std::_Exit(1);
    };
    if (stub == nullptr) return;
    require(stub->violations().empty(), "nothing was done that a driver leaves undefined");
    if (!failed_by_the_driver.timeline) return;
    const hf::Failure failure = failed_by_the_driver.failure();
    require(failure && failure.code() == hf::ErrorCode::device_lost &&
                failure.message().find("driver has shut down") != std::string::npos,
            "work that never ends fails since the driver has shut down");
  }
} last;

void load_stub() {
  void* const library = dlopen(stub_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  using Find = hf::stub_cuda::StubControl* (*)();
  const auto find = reinterpret_cast<Find>(dlsym(library, "holdfast_stub_cuda_control"));
  stub = find();
  stub->register_kernel("increment", [](const hf::stub_cuda::StubLaunch& launch) {
    ++*hf::stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(0));
    return 0;
  });
  setenv("HOLDFAST_CUDA_DRIVER", stub_path().c_str(), 1);
}

// A device, and all that may outlive it.
struct Owned {
  hf::Ref<hal::Device> device;
  hf::Ref<hal::Pipeline> kernel;
  hf::Ref<hal::Allocation> data;
  hf::Ref<hal::Allocation> staging;
  hf::Ref<hal::Allocation> squared;
  hal::MatrixProducts::Way square{};  // 4 x 4, of data
  hf::Ref<hal::HostTimeline> gate;
  std::vector<hal::Point> points;
};

Owned open() {
  hal::CudaOptions options;
  options.driver = stub_path();
  options.matrix_library = stub_path();
  options.queues = 2;
  options.close_bound = std::chrono::milliseconds(50);
  Owned owned;
  owned.device = hal::CudaDevice::open(options).or_raise();
  const std::string image = "holdfast stub module\nincrement 8\n";
  hal::CudaModule module;
  const auto bytes = std::as_bytes(std::span(image));
  module.code.assign(bytes.begin(), bytes.end());
  module.entry_point = "increment";
  module.threads = {32, 1, 1};
  owned.kernel = owned.device->create_pipeline({"increment", module, 1, {}}).or_raise();
  const auto memory = [&](hal::MemoryKind kind) {
    return hal::Allocation::whole(
        owned.device->create_buffer({hf::Bytes{64}, kind, "memory"}).or_raise());
  };
  owned.data = memory(hal::MemoryKind::device);
  owned.staging = memory(hal::MemoryKind::upload);
  owned.squared = memory(hal::MemoryKind::device);
  owned.square =
      owned.device->matrix_products()
          ->find({.rows = 4, .columns = 4, .depth = 4, .a = {.pitch = 4}, .b = {.pitch = 4}})
          .value();
  owned.gate = owned.device->create_host_timeline("gate").or_raise();
  return owned;
}

// Long enough to be a graph; on the second queue, with a product of the library.
hf::Result<hal::Point> submit(Owned& owned, size_t queue, std::vector<hal::Wait> waits = {}) {
  hal::CommandList list(owned.device->info(), "at exit");
  list.copy(owned.staging, {{}, hf::Bytes{64}}, owned.data, {{}, hf::Bytes{64}});
  for (int i = 0; i < 4; ++i) {
    list.barrier();
    list.dispatch(owned.kernel, std::array{hal::Binding::of(owned.data, hal::Access::read_write)},
                  {}, {1, 1, 1});
  }
  if (queue == 1) {
    list.barrier();
    list.native(owned.square.callback,
                std::array{hal::Binding::of(owned.data, hal::Access::read),
                           hal::Binding::of(owned.data, hal::Access::read),
                           hal::Binding::of(owned.squared, hal::Access::write)},
                "square");
  }
  return owned.device->queues()[queue]->submit(list, std::move(waits));
}

void start(Owned& owned, Work work) {
  if (work == Work::none) return;
  if (work == Work::never_ends) stub->hold();
  std::vector<hal::Wait> waits;
  if (work == Work::never_starts) waits = {{{owned.gate, {1}}, hal::WaitKind::order}};
  for (size_t i = 0; i < 40; ++i) {
    owned.points.push_back(submit(owned, i % 2, waits).or_raise());
    // Across queues, too.
    if (work != Work::never_starts) waits = {{owned.points.back(), hal::WaitKind::order}};
  }
}

// Made before the driver is loaded, so destroyed after it has shut down.
std::optional<Owned> outlives_the_driver;
std::optional<hf::Ref<rt::Context>> context_outlives_the_driver;
std::optional<hf::Ref<rt::Stream>> stream_outlives_the_driver;

int leave(Place place, Work work, bool shuts_down) {
  load_stub();
  if (shuts_down) stub->shut_down_at_exit();
  switch (place) {
    case Place::local: {
      Owned owned = open();
      start(owned, work);
      break;
    }
    case Place::after_driver:
      outlives_the_driver = open();
      start(*outlives_the_driver, work);
      if (work == Work::never_ends && shuts_down) {
        last.failed_by_the_driver = outlives_the_driver->points.back();
      }
      break;
    case Place::before_driver: {
      static Owned owned = open();
      start(owned, work);
      break;
    }
  }
  return 0;
}

// Buffers and kernels outlive their device, and the driver.
int leave_parts(bool shuts_down) {
  load_stub();
  if (shuts_down) stub->shut_down_at_exit();
  outlives_the_driver = open();
  start(*outlives_the_driver, Work::runs);
  outlives_the_driver->device.reset();
  return 0;
}

// The runtime's own exit handler closes what is left.
int leave_a_context(Place place, bool shuts_down) {
  load_stub();
  if (shuts_down) stub->shut_down_at_exit();
  const auto context = rt::Context::create(hal::open_device("cuda").or_raise());
  const auto stream = context->new_stream();
  for (int i = 0; i < 20; ++i) {
    const auto memory = stream->allocate(hf::Bytes{4096}, "memory");
    stream->fill(hal::Binding::of(memory, hal::Access::write), std::byte{1});
    stream->flush();
  }
  if (place == Place::after_driver) {
    context_outlives_the_driver = context;
    stream_outlives_the_driver = stream;
  } else if (place == Place::before_driver) {
    static const auto kept = stream;
  }
  return 0;
}

// Threads submit and wait while the process ends.
int leave_threads(bool shuts_down) {
  load_stub();
  if (shuts_down) stub->shut_down_at_exit();
  outlives_the_driver = open();
  static std::atomic<int> submitted{0};
  for (size_t queue = 0; queue < 2; ++queue) {
    // Has shares of its own: the static goes while it runs.
    std::thread([queue, mine = *outlives_the_driver]() mutable {
      for (;;) {
        const auto point = submit(mine, queue);
        if (!point) return;
        (void)point.value().timeline->wait(point.value().value, hf::sync::Deadline::never());
        submitted.fetch_add(1);
        submitted.notify_all();
      }
    }).detach();
  }
  for (int seen = submitted.load(); seen < 20; seen = submitted.load()) submitted.wait(seen);
  return 0;
}

// main waits for what never ends, and another thread ends the process.
int exit_while_main_waits() {
  load_stub();
  stub->shut_down_at_exit();
  outlives_the_driver = open();
  start(*outlives_the_driver, Work::never_ends);
  const hal::Point last = outlives_the_driver->points.back();
  std::thread([] { std::exit(0); }).detach();
  (void)last.timeline->wait(last.value, hf::sync::Deadline::never());
  for (;;) pause();
}

enum class Child { drops, exits, opens };

int in_child(Child child, Owned& owned) {
  alarm(hf::testing::kChildSeconds);
  const auto refused = submit(owned, 0);
  if (refused.ok()) return 2;
  switch (child) {
    case Child::drops: owned = {}; return 0;
    case Child::exits: return 0;
    case Child::opens: {
      hal::CudaOptions options;
      options.driver = stub_path();
      const auto opened = hal::CudaDevice::open(options);
      if (opened.ok()) return 3;
      return opened.failure().message().find("fork") != std::string::npos ? 0 : 4;
    }
  }
  return 5;
}

// A child of a process with a device open, and work in flight: it can do nothing with it, and ends
// as it likes; the parent works on.
int fork_with_a_device(Child child, Work work) {
  load_stub();
  outlives_the_driver = open();
  Owned& owned = *outlives_the_driver;
  start(owned, work);
  const pid_t forked = fork();
  if (forked == 0) {
    const int status = in_child(child, owned);
    stub = nullptr;  // whose locks a child has as they were
    if (child == Child::exits && status == 0) std::exit(0);
    _exit(status);
  }
  int status = 0;
  if (forked < 0 || waitpid(forked, &status, 0) != forked || status != 0) {
    std::fprintf(stderr, "the child: wait status 0x%x\n", status);
    return 1;
  }
  stub->release();
  owned.gate->signal({1});
  for (const hal::Point& point : owned.points) {
    if (point.timeline->wait(point.value, hf::sync::Deadline::never()) !=
        hal::PointState::reached) {
      return 1;
    }
  }
  const hal::Point more = submit(owned, 0).or_raise();
  const auto state = more.timeline->wait(more.value, hf::sync::Deadline::never());
  return state == hal::PointState::reached ? 0 : 1;
}

}  // namespace

int main() {
  if (!std::filesystem::exists(stub_path())) {
    std::puts("skipped: the stub CUDA driver is not built");
    return 77;
  }
  std::vector<hf::testing::ProcessCase> cases;
  const auto add = [&](std::string name, std::function<int()> run) {
    cases.push_back({std::move(name), std::move(run)});
  };
  constexpr const char* kPlaces[] = {"local", "after the driver", "before the driver"};
  constexpr const char* kWorks[] = {"no work", "work", "work that never ends",
                                    "work that never starts"};
  for (const bool shuts_down : {false, true}) {
    const std::string driver = shuts_down ? ", the driver shuts down" : "";
    for (int place = 0; place < 3; ++place) {
      for (int work = 0; work < 4; ++work) {
        add(std::string(kPlaces[place]) + ", " + kWorks[work] + driver,
            [=] { return leave(static_cast<Place>(place), static_cast<Work>(work), shuts_down); });
      }
      add(std::string("a context, ") + kPlaces[place] + driver,
          [=] { return leave_a_context(static_cast<Place>(place), shuts_down); });
    }
    add("buffers and kernels" + driver, [=] { return leave_parts(shuts_down); });
  }
  // Of threads that never return, and of children of a process that has threads, sanitizers report
  // what is not so, or never end.
  if (holdfast::has_sanitizer()) return hf::testing::run_in_children(cases);
  for (const bool shuts_down : {false, true}) {
    add(std::string("threads") + (shuts_down ? ", the driver shuts down" : ""),
        [=] { return leave_threads(shuts_down); });
  }
  add("exit while main waits", exit_while_main_waits);
  constexpr const char* kChildren[] = {"drops it", "exits", "opens another"};
  for (int child = 0; child < 3; ++child) {
    for (int work = 0; work < 4; ++work) {
      add(std::string("a child that ") + kChildren[child] + ", " + kWorks[work],
          [=] { return fork_with_a_device(static_cast<Child>(child), static_cast<Work>(work)); });
    }
  }
  return hf::testing::run_in_children(cases);
}
