#include "holdfast/base/range_set.h"

#include <benchmark/benchmark.h>

namespace holdfast {
namespace {

// Adding disjoint slices that do not touch, per slice: where the bound joins them, and far below
// it.
void add_slices(benchmark::State& state) {
  const auto slices = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) {
    RangeSet set;
    // From both ends towards the middle, which moves the most.
    for (uint64_t i = 0; i < slices; ++i) {
      const uint64_t at = i % 2 == 0 ? i : 2 * slices - i;
      set.add({Bytes{at * 64}, 32_B});
    }
    benchmark::DoNotOptimize(set);
  }
  state.counters["per"] = static_cast<double>(slices);
}
BENCHMARK(add_slices)->Name("hazard_slices/ours")->Arg(4)->Arg(32)->Arg(256);

}  // namespace
}  // namespace holdfast
