// A scratch heap that grows while submitted work still uses its old memory; launches are submitted
// one by one, a next stage on another stream consumes each result, and nothing ever synchronises.
// Every hundredth launch reads its result back. What waits for the device stays within the budget,
// and the host never waits for anything but what it asked for.

#include <holdfast/holdfast.h>

#include <cstdio>

namespace hf = holdfast;

namespace {

constexpr int kLaunches = 4000;
constexpr int kLaunchesPerProblem = 509;
constexpr int64_t kLargestScratch = 512 * 1024;  // words

int64_t scratch_needed(int launch) {
  const int64_t step = launch % kLaunchesPerProblem + 1;
  return std::max<int64_t>(1024, kLargestScratch * step / kLaunchesPerProblem);
}

// Writes both ends of the heap before its work and reads them after it: a heap that somebody else
// got meanwhile shows. Its metadata are parameters of the call: each launch has its own.
const char* const kLaunch = R"(
heap[0] = launch;
heap[words - 1] = launch * 2u;
uint work = launch;
for (uint i = 0; i < 200; ++i) work = work * 1664525u + 1013904223u;
result[0] = heap[0] + heap[words - 1] + uint(words) + (work == launch ? 1u : 0u);
)";

uint32_t expected(int launch) {
  return static_cast<uint32_t>(launch) * 3 + static_cast<uint32_t>(scratch_needed(launch));
}

}  // namespace

int main() {
  const hf::Device device = hf::default_device();
  const hf::Stream launches = hf::new_stream(device, "launches");
  const hf::Stream stages = hf::new_stream(device, "next stage");
  const hf::Kernel launch(
      {.name = "launch", .outputs = {"result"}, .in_place = {"heap"}, .source = kLaunch});

  hf::Array heap;
  hf::Array total = hf::zeros({1}, hf::uint32, stages);
  uint32_t expected_total = 0;
  int checked = 0;
  int wrong = 0;
  for (int i = 0; i < kLaunches; ++i) {
    const int64_t words = scratch_needed(i);
    if (i % kLaunchesPerProblem == 0) heap = hf::Array();
    if (!heap.has_value() || heap.size() < words) {
      const int64_t doubled = heap.has_value() ? std::max(words, 2 * heap.size()) : words;
      heap = hf::zeros({doubled}, hf::uint32, launches);  // the old one may still be in use
    }
    std::vector<hf::Array> in_place;
    in_place.push_back(std::move(heap));
    std::vector<hf::Array> made = launch({}, {.grid = {1, 1, 1},
                                              .threadgroup = {1, 1, 1},
                                              .output_shapes = {{1}},
                                              .output_dtypes = {hf::uint32},
                                              .params = {{"launch", static_cast<uint32_t>(i)},
                                                         {"words", static_cast<uint32_t>(words)}},
                                              .in_place = std::move(in_place),
                                              .on = launches});
    const hf::Array result = made[0];
    heap = std::move(made[1]);
    made.clear();
    hf::async_eval(result);
    total = hf::add(std::move(total), result, stages);
    hf::async_eval(total);
    expected_total += expected(i);
    if (i % 100 == 99) {
      ++checked;
      wrong += result.item<uint32_t>() != expected(i);
    }
  }
  ++checked;
  wrong += total.item<uint32_t>() != expected_total;

  const hf::Stats stats = device.stats();
  const uint64_t unasked = stats.runtime.wait_count() -
                           stats.runtime.waits_for(hf::WaitReason::readback).count -
                           stats.runtime.waits_for(hf::WaitReason::point).count;
  std::printf("%d launches, %d results checked, %d wrong\n", kLaunches, checked, wrong);
  std::printf("memory that waits for the device, at most: %s; waits that nobody asked for: %llu\n",
              hf::to_string(stats.runtime.memory.deferred_peak).c_str(),
              static_cast<unsigned long long>(unasked));
  std::printf("the heap was copied %llu times and passed on %llu times\n",
              static_cast<unsigned long long>(stats.hidden_copies),
              static_cast<unsigned long long>(stats.donated));
  const bool bounded = stats.runtime.memory.deferred_peak <= hf::RuntimeOptions().deferred_limit;
  return wrong == 0 && bounded && stats.hidden_copies == 0 ? 0 : 1;
}
