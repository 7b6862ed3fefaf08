// Leaves main with arrays wherever they can be: made and computed before main began, in statics, in
// a thread that goes on evaluating, with work in flight, with work that nobody has evaluated, and
// in a destructor that comes after everything was closed. The process must end by itself, cleanly,
// with status 0.
#include <holdfast/base/never_destroyed.h>
#include <holdfast/holdfast.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

namespace hf = holdfast;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

constexpr int64_t kElements = 1 << 16;
alignas(4096) float memory[kElements];
std::atomic<int> deleted{0};
std::atomic<int> evaluated{0};

// What is left when all other statics are gone: made first, so destroyed last.
struct Last {
  hf::Array computed;
  hf::Array not_computed;
  ~Last() {
    for (const hf::Array* array : {&computed, &not_computed}) {
      try {
        (void)array->to_vector<float>();
        require(false, "an array that is read after everything was closed raises");
      } catch (const hf::ClosedError&) {
      }
    }
    try {
      hf::full({4}, 1.0).eval();
      require(false, "a new array raises too");
    } catch (const hf::ClosedError&) {
    }
    require(deleted.load() == 1, "external memory was let go, once");
  }
} last;

// Neither main nor any device was there yet.
const hf::Array before_main = hf::full({kElements}, 2.0);
const hf::Array computed_before_main = [] {
  hf::Array sum = hf::add(before_main, 1.0F);
  sum.eval();
  return sum;
}();
hf::Array in_flight;

const hf::Kernel& scale() {
  // Threads use it while the process exits.
  static const hf::NeverDestroyed<hf::Kernel> kernel(hf::KernelDefinition{
      .name = "scale",
      .inputs = {"x"},
      .outputs = {"y"},
      .source = "uint i = thread_position_in_grid.x; y[i] = 0.5f * x[i] + 1.0f;"});
  return kernel;
}

hf::Array scaled(const hf::Array& x) {
  return scale()({x}, {.grid = {static_cast<uint32_t>(x.size()), 1, 1},
                       .threadgroup = {256, 1, 1},
                       .output_shapes = {x.shape()},
                       .output_dtypes = {x.dtype()}})[0];
}

void keep_evaluating() {
  try {
    const hf::Stream mine = hf::new_stream("mine");
    const hf::UseStream scope(mine);
    hf::Array x = hf::full({kElements}, 1.0);
    for (;;) {
      x = scaled(x);
      hf::async_eval(x);
      evaluated.fetch_add(1);
      evaluated.notify_all();
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
  require(computed_before_main.to_vector<float>().back() == 3.0F, "computed before main");
  require(before_main.to_vector<float>().front() == 2.0F, "built before main");

  static const hf::Array external =
      hf::from_external(memory, hf::float32, {kElements}, [] { deleted.fetch_add(1); });
  static const hf::Array never = scaled(external);
  last.computed = computed_before_main;
  last.not_computed = scaled(computed_before_main);

  for (int i = 0; i < 2; ++i) std::thread(keep_evaluating).detach();
  for (int seen = evaluated.load(); seen < 100; seen = evaluated.load()) evaluated.wait(seen);

  in_flight = external;
  for (int i = 0; i < 500; ++i) in_flight = scaled(in_flight);
  hf::async_eval(in_flight);
  std::puts("leaving main with arrays in flight");
  return 0;
}
