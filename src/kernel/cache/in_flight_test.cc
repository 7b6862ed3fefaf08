#include <gtest/gtest.h>

#include <array>

#include "holdfast/kernel/cache/in_flight_scenarios_test.h"
#include "holdfast/kernel/cache/stub_target_test.h"
#include "holdfast/testing/rig.h"

namespace holdfast::kernel {
namespace {

using testing::Rig;
using testing::World;

// A rig with a cache over the stub.
struct CacheRig : Rig {
  explicit CacheRig(World& world, CacheLimits limits = {})
      : Rig(world), shared(std::make_shared<VariantCache>(device, target, nullptr, limits)) {}

  std::shared_ptr<StubTarget> target = std::make_shared<StubTarget>();
  std::shared_ptr<VariantCache> shared;
  VariantCache& cache = *shared;

  // Records a kernel that fills `out`, and keeps nothing of it.
  void launch(runtime::Stream& on, const Ref<hal::Allocation>& out, const CompileJob& job,
              KernelId kernel = KernelId::next()) {
    const auto variant =
        cache.get(kernel, signature_of(0), [&]() -> Result<CompileJob> { return job; }).or_raise();
    on.dispatch(variant->pipeline, std::array{testing::write_of(out)}, {}, {1, 1, 1}, job.kernel);
  }
};

// Two kernels that are made and run one after the other: each runs its own code.
void expect_own_code(World& world, const CompileJob& first, int first_value,
                     const CompileJob& second, int second_value) {
  CacheRig rig(world);
  const auto stream = rig.stream("main");
  const auto a = stream->allocate(256_B, "a");
  const auto b = stream->allocate(256_B, "b");
  rig.launch(*stream, a, first);
  rig.launch(*stream, b, second);
  EXPECT_EQ(testing::value_of(*stream, a), first_value) << "the first ran other code";
  EXPECT_EQ(testing::value_of(*stream, b), second_value) << "the second ran other code";
}

void two_kernels_of_one_name(World& world) {
  expect_own_code(world, stub_job("2", "scale"), 2, stub_job("7", "scale"), 7);
}

#ifdef HOLDFAST_ABLATIONS
void two_kernels_of_one_digest(World& world) {
  const ScopedDigestCollision collide;
  expect_own_code(world, stub_job("2", "a"), 2, stub_job("7", "b"), 7);
}
#endif

void fields_that_spell_the_same_when_joined(World& world) {
  CompileJob first = stub_job("12");
  first.code.entry_point = "run";
  CompileJob second = stub_job("2");
  second.code.entry_point = "run1";
  expect_own_code(world, first, 12, second, 2);
}

// mlx#3347: a kernel of the same name and another source comes while the first is recorded, and
// while it is in flight.
void one_name_again_while_the_first_is_in_flight(World& world) {
  CacheRig rig(world);
  const auto stream = rig.stream("main");
  const auto a = stream->allocate(256_B, "a");
  const auto b = stream->allocate(256_B, "b");
  rig.launch(*stream, a, stub_job("2", "scale"));
  {
    const auto next = world.task("next", [&] {
      rig.cache.get(KernelId::next(), signature_of(0), making("7", "scale")).or_raise();
    });
    stream->flush();
  }
  rig.launch(*stream, b, stub_job("7", "scale"));
  EXPECT_EQ(testing::value_of(*stream, a), 2);
  EXPECT_EQ(testing::value_of(*stream, b), 7);
}

void evicted_and_cleared_while_in_flight(World& world) {
  CacheRig rig(world, {.variants = 1});
  const auto stream = rig.stream("main");
  const auto a = stream->allocate(256_B, "a");
  const auto b = stream->allocate(256_B, "b");
  world.offer([weak = std::weak_ptr(rig.shared)] {
    if (const auto cache = weak.lock()) cache->clear();
  });
  rig.launch(*stream, a, stub_job("2", "evicted"));
  {
    const auto evictor = world.task("evictor", [&] {
      rig.cache.get(KernelId::next(), signature_of(1), making("3", "other")).or_raise();
      rig.cache.clear();
    });
    rig.launch(*stream, b, stub_job("5", "cleared"));
    stream->flush();
    rig.cache.set_limits({.variants = 0});
  }
  EXPECT_EQ(testing::value_of(*stream, a), 2);
  EXPECT_EQ(testing::value_of(*stream, b), 5);
}

// mlx#3624: a compile that fails leaves no entry, neither for the next call nor for one that comes
// while it is under way.
void failed_compile_leaves_no_entry(World& world) {
  CacheRig rig(world);
  const KernelId kernel = KernelId::next();
  const auto expect_failure = [&] {
    const auto failed = rig.cache.get(kernel, signature_of(0), making("error", "broken"));
    ASSERT_FALSE(failed) << "a kernel that does not compile was found in the cache";
    if (!world.has_faults()) {
      EXPECT_EQ(failed.failure().code(), ErrorCode::usage);
    }
  };
  {
    const auto beside = world.task("beside", expect_failure);
    expect_failure();
  }
  expect_failure();
  EXPECT_EQ(rig.cache.stats().variants, 0U);
  EXPECT_EQ(rig.cache.stats().failures, 3U);
}

// godot#96052, small enough for every schedule to be decided: three tasks, two contents.
void tasks_that_need_the_same_compile_it_once(World& world) {
  CacheRig rig(world);
  const KernelId kernel = KernelId::next();
  const auto need = [&](int64_t signature) {
    const auto got =
        rig.cache.get(kernel, signature_of(signature), making(std::to_string(signature)))
            .or_raise();
    EXPECT_TRUE(got->pipeline);
  };
  {
    const auto same = world.task("same", [&] { need(1); });
    const auto other = world.task("other", [&] {
      need(2);
      need(1);
    });
    need(1);
  }
  if (!world.has_faults()) {
    EXPECT_EQ(rig.target->compiles, 2U);
    EXPECT_EQ(rig.cache.stats().variants, 2U);
  }
}

void warming_up_beside_calls_and_clears(World& world) {
  CacheRig rig(world, {.variants = 3});
  const KernelId kernel = KernelId::next();
  std::vector<VariantCache::Wanted> forth;
  for (int i = 1; i <= 4; ++i) {
    forth.push_back({kernel, signature_of(i), making(std::to_string(i))});
  }
  const std::vector<VariantCache::Wanted> back(forth.rbegin(), forth.rend());
  const auto warm = [&](std::span<const VariantCache::Wanted> wanted) {
    for (const Failure& failure : rig.cache.warm_up(wanted)) failure.raise_if_any();
  };
  {
    const auto other = world.task("other", [&] { warm(back); });
    const auto clearing = world.task("clearing", [&] { rig.cache.clear(); });
    warm(forth);
  }
  EXPECT_LE(rig.cache.stats().variants, 3U);
  const CacheStats stats = rig.cache.stats();
  EXPECT_EQ(stats.misses, stats.shared + stats.compiles + stats.failures);
}

constexpr std::array kScenarios{
    CacheScenario{"two_kernels_of_one_name", two_kernels_of_one_name},
#ifdef HOLDFAST_ABLATIONS
    CacheScenario{"two_kernels_of_one_digest", two_kernels_of_one_digest},
#endif
    CacheScenario{"fields_that_spell_the_same_when_joined", fields_that_spell_the_same_when_joined},
    CacheScenario{"one_name_again_while_the_first_is_in_flight",
                  one_name_again_while_the_first_is_in_flight},
    CacheScenario{"evicted_and_cleared_while_in_flight", evicted_and_cleared_while_in_flight},
    CacheScenario{"failed_compile_leaves_no_entry", failed_compile_leaves_no_entry},
    CacheScenario{"tasks_that_need_the_same_compile_it_once",
                  tasks_that_need_the_same_compile_it_once},
    CacheScenario{"warming_up_beside_calls_and_clears", warming_up_beside_calls_and_clears},
};

class CacheInFlight : public ::testing::TestWithParam<CacheScenario> {};

TEST_P(CacheInFlight, is_right_with_threads_under_validate) {
  testing::run_scenario(GetParam().body, World::Mode::validate, testing::Family::cpu);
}
TEST_P(CacheInFlight, is_right_in_every_schedule_of_the_adversary) {
  testing::run_scenario(GetParam().body, World::Mode::adversary, testing::Family::cpu);
}

INSTANTIATE_TEST_SUITE_P(Cache, CacheInFlight, ::testing::ValuesIn(cache_scenarios()),
                         [](const auto& test) { return test.param.name; });

}  // namespace

std::span<const CacheScenario> cache_scenarios() { return kScenarios; }

}  // namespace holdfast::kernel
