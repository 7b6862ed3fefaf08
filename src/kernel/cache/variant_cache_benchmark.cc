#include "holdfast/kernel/cache/variant_cache.h"

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <array>
#include <atomic>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/kernel/cache/stub_target_test.h"

// The cache alone, over the stub compiler of its tests, which compiles nothing.

namespace holdfast::kernel {
namespace {

struct CacheFixture {
  Ref<hal::CpuDevice> device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  std::shared_ptr<StubTarget> target = std::make_shared<StubTarget>();
};

// As a launch makes it: three inputs, an output, two constants, a parameter.
SignatureKey key_of_call(int64_t n) {
  SignatureKey key;
  key.add_counts(3, 1, 0, 2, 1);
  for (int i = 0; i < 4; ++i) key.add(Dtype::float16, 2);
  key.add("T", ConstantValue(Dtype::float16));
  key.add("N", ConstantValue(n));
  key.add("eps", Dtype::float32);
  return key;
}

void signature_key(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(key_of_call(768));
}
BENCHMARK(signature_key)->Name("kernel_signature_key/ours");

// Among 1,000 variants; the key is made anew for each call.
void hit(benchmark::State& state) {
  const CacheFixture fixture;
  VariantCache cache(fixture.device, fixture.target, nullptr);
  const KernelId kernel = KernelId::next();
  for (int64_t n = 0; n < 1000; ++n) {
    (void)cache.get(kernel, key_of_call(n), making(std::to_string(n)));
  }
  const VariantCache::MakeJob never = []() -> Result<CompileJob> {
    return Failure(ErrorCode::usage, "text was made on the hit path");
  };
  int64_t n = 0;
  for (auto _ : state) {
    auto found = cache.get(kernel, key_of_call(n), never);
    if (!found) return state.SkipWithError(found.failure().message().c_str());
    benchmark::DoNotOptimize(found);
    n = n == 999 ? 0 : n + 1;
  }
}
BENCHMARK(hit)->Name("kernel_cache_hit/ours");

// 32 threads ask for the same new kernel at once: one of them compiles. Per storm.
void storm(benchmark::State& state) {
  constexpr unsigned kThreads = 32;
  const CacheFixture fixture;
  VariantCache cache(fixture.device, fixture.target, nullptr, {.variants = 16});
  const KernelId kernel = KernelId::next();
  int64_t storms = 0;
  for (auto _ : state) {
    std::atomic<unsigned> ready{0};
    std::atomic<unsigned> good{0};
    sync::TimePoint start;
    {
      std::vector<sync::Thread> threads;
      for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back("storm", [&] {
          ++ready;
          for (unsigned attempt = 0; ready < kThreads + 1; ++attempt) sync::relax(attempt);
          if (cache.get(kernel, key_of_call(storms), making(std::to_string(storms)))) ++good;
        });
      }
      for (unsigned attempt = 0; ready < kThreads; ++attempt) sync::relax(attempt);
      start = sync::now();
      ++ready;
    }
    state.SetIterationTime(std::chrono::duration<double>(sync::now() - start).count());
    ++storms;
    if (good != kThreads || fixture.target->compiles != static_cast<uint64_t>(storms)) {
      return state.SkipWithError("a storm made another number of compiles than one");
    }
  }
}
BENCHMARK(storm)->Name("kernel_cache_storm_of_32_threads/ours")->UseManualTime();

// 100,000 variants through a cache for 1,000, of which the last 90,000 may not take memory. Per
// variant.
void variants(benchmark::State& state) {
  constexpr int64_t kFirst = 10'000;
  constexpr int64_t kAll = 100'000;
  constexpr size_t kSlack = 256 << 10;
  const CacheFixture fixture;
  for (auto _ : state) {
    VariantCache cache(fixture.device, fixture.target, nullptr, {.variants = 1000});
    const KernelId kernel = KernelId::next();
    size_t before = 0;
    for (int64_t n = 0; n < kAll; ++n) {
      if (n == kFirst) before = ::mallinfo2().uordblks;
      if (!cache.get(kernel, key_of_call(n), making(std::to_string(n)))) {
        return state.SkipWithError("the stub failed");
      }
    }
    if (::mallinfo2().uordblks > before + kSlack || cache.stats().variants != 1000) {
      return state.SkipWithError("memory grows with the number of variants that were made");
    }
  }
  state.counters["per"] = static_cast<double>(kAll);
}
BENCHMARK(variants)->Name("kernel_cache_100000_variants/ours")->Iterations(1);

}  // namespace
}  // namespace holdfast::kernel
