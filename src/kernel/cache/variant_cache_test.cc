#include "holdfast/kernel/cache/variant_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "holdfast/base/log.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/kernel/cache/stub_target_test.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/rig.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::until;

// A cache over the stub, without a disk.
class VariantCacheTest : public ::testing::Test {
 protected:
  explicit VariantCacheTest(CacheLimits limits = {}) : cache(device, target, nullptr, limits) {}

  Result<Ref<const Variant>> get(KernelId kernel, int64_t signature, const std::string& text,
                                 const std::string& name = "stub") {
    return cache.get(kernel, signature_of(signature), making(text, name));
  }
  bool has(KernelId kernel, int64_t signature) {
    return static_cast<bool>(cache.find(kernel, signature_of(signature)));
  }
  void expect_sums() const {
    const CacheStats s = cache.stats();
    EXPECT_EQ(s.misses, s.shared + s.disk_hits + s.compiles + s.failures);
  }

  Ref<hal::CpuDevice> device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  std::shared_ptr<StubTarget> target = std::make_shared<StubTarget>();
  VariantCache cache;
  KernelId one = KernelId::next();
  KernelId two = KernelId::next();
};

TEST_F(VariantCacheTest, the_second_call_finds_what_the_first_compiled_and_makes_no_text) {
  const auto first = get(one, 1, "5");
  ASSERT_TRUE(first);
  const auto second = cache.get(one, signature_of(1), []() -> Result<CompileJob> {
    ADD_FAILURE() << "text was made";
    return Failure(ErrorCode::usage, "");
  });
  ASSERT_TRUE(second);
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(first.value()->pipeline->name(), "stub");
  EXPECT_EQ(first.value()->interface, stub_job("5").code.interface);
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.compiles, 1U);
  EXPECT_EQ(stats.variants, 1U);
  EXPECT_GT(stats.bytes, 1_B);
  expect_sums();
}

TEST_F(VariantCacheTest, find_finds_what_is_there_and_makes_nothing) {
  EXPECT_FALSE(has(one, 1));
  const auto made = get(one, 1, "5");
  EXPECT_EQ(cache.find(one, signature_of(1)), made.value());
  EXPECT_FALSE(has(two, 1));
  EXPECT_FALSE(has(one, 2));
  EXPECT_EQ(cache.stats().hits, 1U);
  EXPECT_EQ(cache.stats().misses, 1U);
}

TEST_F(VariantCacheTest, variants_of_one_kernel_and_kernels_of_one_name_coexist) {
  const auto a = get(one, 1, "1");
  const auto b = get(one, 2, "2");
  const auto c = get(two, 1, "3");
  EXPECT_FALSE(a.value() == b.value());
  EXPECT_FALSE(a.value() == c.value());
  EXPECT_EQ(get(one, 1, "1").value(), a.value());
  EXPECT_EQ(get(one, 2, "2").value(), b.value());
  EXPECT_EQ(get(two, 1, "3").value(), c.value());
  EXPECT_EQ(cache.stats().variants, 3U);
  EXPECT_EQ(target->compiles, 3U);
}

TEST_F(VariantCacheTest, the_same_content_is_compiled_once_whoever_asks) {
  const auto a = get(one, 1, "1");
  const auto b = get(two, 7, "1");
  EXPECT_EQ(a.value(), b.value());
  EXPECT_TRUE(has(two, 7));
  EXPECT_EQ(target->compiles, 1U);
  EXPECT_EQ(cache.stats().shared, 1U);
  EXPECT_EQ(cache.stats().variants, 1U);
  expect_sums();
}

TEST_F(VariantCacheTest, another_version_of_the_compiler_compiles_again) {
  const auto a = get(one, 1, "1");
  target->version_text = "stub 2";
  const auto b = get(two, 1, "1");
  EXPECT_FALSE(a.value() == b.value());
  EXPECT_EQ(target->compiles, 2U);
}

// Failures

TEST_F(VariantCacheTest, a_failing_compile_leaves_no_entry_and_each_retry_has_the_same_error) {
  std::vector<std::string> messages;
  for (int i = 0; i < 3; ++i) {
    const auto failed = get(one, 1, "error: no such thing", "broken");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.failure().code(), ErrorCode::usage);
    messages.push_back(failed.failure().message());
    EXPECT_FALSE(has(one, 1));
  }
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("broken"), HasSubstr("no such thing"))));
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[1], messages[2]);
  EXPECT_EQ(target->compiles, 3U) << "each of them asked the compiler";
  EXPECT_EQ(cache.stats().failures, 3U);
  EXPECT_EQ(cache.stats().variants, 0U);
  EXPECT_EQ(cache.stats().bytes, 0_B);
  // The corrected source, under the same name and signature.
  EXPECT_TRUE(get(two, 1, "1", "broken"));
  EXPECT_FALSE(get(one, 1, "error: no such thing", "broken"));
  expect_sums();
}

TEST_F(VariantCacheTest, what_does_not_load_leaves_no_entry) {
  EXPECT_THAT(get(one, 1, "unloadable").failure().message(), HasSubstr("does not load"));
  EXPECT_EQ(cache.stats().variants, 0U);
  EXPECT_EQ(cache.stats().failures, 1U);
  expect_sums();
}

TEST_F(VariantCacheTest, a_job_that_cannot_be_made_and_a_missing_compiler_are_failures_too) {
  const Failure cause(ErrorCode::usage, "no such argument");
  const auto failed =
      cache.get(one, signature_of(1), [&]() -> Result<CompileJob> { return cause; });
  EXPECT_EQ(failed.failure(), cause);
  target->no_version = Failure(ErrorCode::environment, "no compiler");
  EXPECT_THAT(get(one, 1, "1").failure().message(),
              AllOf(HasSubstr("'stub'"), HasSubstr(target->no_version.message())));
  EXPECT_EQ(target->compiles, 0U);
  EXPECT_EQ(cache.stats().failures, 2U);
  expect_sums();
}

TEST_F(VariantCacheTest, a_compiler_that_throws_is_a_failure_and_leaves_no_entry) {
  target->on_compile = [](const CompileJob&) { throw std::runtime_error("it fell over"); };
  EXPECT_THAT(get(one, 1, "1").failure().message(), HasSubstr("it fell over"));
  target->on_compile = {};
  EXPECT_TRUE(get(one, 1, "1"));
}

TEST_F(VariantCacheTest, whatever_a_compiler_throws_reaches_those_who_asked) {
  target->on_compile = [](const CompileJob&) { throw 42; };
  const Result<Ref<const Variant>> got = cache.get(one, signature_of(1), making("1"));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.failure().message(), HasSubstr("'stub'"));
  const std::vector<VariantCache::Wanted> wanted{{one, signature_of(2), making("2")},
                                                 {one, signature_of(3), making("3")}};
  for (const Failure& failure : cache.warm_up(wanted)) {
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure.message(), HasSubstr("no std::exception"));
  }
  EXPECT_EQ(cache.stats().variants, 0U);
  target->on_compile = [](const CompileJob&) { throw std::bad_alloc(); };
  EXPECT_EQ(cache.get(one, signature_of(4), making("4")).failure().code(),
            ErrorCode::out_of_memory);
  target->on_compile = [](const CompileJob&) { throw std::runtime_error("no"); };
  EXPECT_EQ(cache.get(one, signature_of(5), making("5")).failure().code(), ErrorCode::environment);
}

TEST_F(VariantCacheTest, the_adversary_fails_the_compile_it_is_told_to_and_no_other) {
  const auto adversary = hal::AdversaryDevice::wrap(
      hal::CpuDevice::open({.queues = 1, .helpers = 0, .immediate = true}),
      {.faults = hal::FaultPlan::parse("compile@2")});
  VariantCache hostile(hal::ValidateDevice::wrap(adversary), target, nullptr);
  EXPECT_TRUE(hostile.get(one, signature_of(1), making("1")));
  const auto failed = hostile.get(one, signature_of(2), making("2", "unlucky"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.failure().code(), ErrorCode::environment);
  EXPECT_THAT(failed.failure().message(), AllOf(HasSubstr("compile@2"), HasSubstr("unlucky")));
  EXPECT_EQ(target->compiles, 1U) << "the compiler was not run";
  EXPECT_EQ(hostile.stats().variants, 1U);
  EXPECT_TRUE(hostile.get(one, signature_of(1), making("1"))) << "a hit compiles nothing";
  EXPECT_TRUE(hostile.get(one, signature_of(2), making("2", "unlucky")));
}

// Single flight

TEST_F(VariantCacheTest, thirty_two_tasks_make_one_compile_of_which_the_others_wait) {
  target->on_compile = [&](const CompileJob&) {
    EXPECT_TRUE(until([&] { return cache.stats().waits == 31; }));
  };
  std::array<Ref<const Variant>, 32> got;
  {
    std::vector<sync::Thread> tasks;
    for (auto& mine : got) {
      tasks.emplace_back("caller", [&] { mine = get(one, 1, "1").value(); });
    }
  }
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_TRUE(got[0]);
  EXPECT_EQ(target->compiles, 1U);
  EXPECT_EQ(cache.stats().compiles, 1U);
  EXPECT_EQ(cache.stats().waits, 31U);
  EXPECT_EQ(cache.stats().shared, 31U);
  expect_sums();
}

TEST_F(VariantCacheTest, those_who_wait_for_a_compile_that_fails_get_its_error) {
  target->on_compile = [&](const CompileJob&) {
    EXPECT_TRUE(until([&] { return cache.stats().waits == 7; }));
  };
  std::array<Failure, 8> got;
  {
    std::vector<sync::Thread> tasks;
    for (auto& mine : got) {
      tasks.emplace_back("caller", [&] { mine = get(one, 1, "error").failure(); });
    }
  }
  EXPECT_TRUE(got[0]);
  EXPECT_THAT(got, Each(got[0])) << "one cause";
  EXPECT_EQ(target->compiles, 1U);
  EXPECT_EQ(cache.stats().failures, 8U);
  EXPECT_EQ(cache.stats().variants, 0U);
  target->on_compile = {};
  EXPECT_FALSE(get(one, 1, "error"));
  EXPECT_EQ(target->compiles, 2U) << "the next call tries again";
}

TEST_F(VariantCacheTest, different_contents_compile_at_the_same_time) {
  std::atomic<int> inside = 0;
  target->on_compile = [&](const CompileJob&) {
    ++inside;
    EXPECT_TRUE(until([&] { return inside == 2; })) << "each waits for the other";
  };
  const sync::Thread other("other", [&] { EXPECT_TRUE(get(two, 1, "2")); });
  EXPECT_TRUE(get(one, 1, "1"));
}

TEST_F(VariantCacheTest, hits_statistics_and_clear_do_not_wait_for_a_compile) {
  EXPECT_TRUE(get(one, 1, "1"));
  testing::Event compiling;
  testing::Event go_on;
  target->on_compile = [&](const CompileJob&) {
    compiling.set();
    EXPECT_TRUE(go_on.wait());
  };
  {
    const sync::Thread other("other", [&] { EXPECT_TRUE(get(two, 1, "2")); });
    ASSERT_TRUE(compiling.wait());
    EXPECT_TRUE(get(one, 1, "1"));
    EXPECT_EQ(cache.stats().variants, 1U);
    cache.clear();
    EXPECT_EQ(cache.stats().variants, 0U);
    cache.set_limits({.variants = 10});
    go_on.set();
  }
  EXPECT_TRUE(has(two, 1)) << "what was being compiled is kept";
}

// Limits

TEST_F(VariantCacheTest, over_the_count_the_least_recently_used_goes) {
  cache.set_limits({.variants = 3});
  for (const int i : {1, 2, 3}) EXPECT_TRUE(get(one, i, std::to_string(i)));
  EXPECT_TRUE(has(one, 1));  // now 2 is the oldest
  EXPECT_TRUE(get(one, 4, "4"));
  EXPECT_FALSE(has(one, 2));
  EXPECT_TRUE(has(one, 1));
  EXPECT_TRUE(has(one, 3));
  EXPECT_TRUE(has(one, 4));
  EXPECT_EQ(cache.stats().evictions, 1U);
  EXPECT_EQ(cache.stats().variants, 3U);
  // It comes back when it is asked for.
  EXPECT_TRUE(get(one, 2, "2"));
  EXPECT_EQ(target->compiles, 5U);
}

TEST_F(VariantCacheTest, a_use_under_any_spelling_counts) {
  cache.set_limits({.variants = 2});
  EXPECT_TRUE(get(one, 1, "1"));
  EXPECT_TRUE(get(two, 1, "1"));
  EXPECT_TRUE(get(one, 2, "2"));
  EXPECT_TRUE(has(two, 1));
  EXPECT_TRUE(get(one, 3, "3"));
  EXPECT_TRUE(has(two, 1));
  EXPECT_FALSE(has(one, 2));
}

TEST_F(VariantCacheTest, it_is_bounded_by_bytes_and_a_large_variant_lives_alone) {
  const std::string text = "1" + std::string(10'000, ' ');
  EXPECT_TRUE(get(one, 1, text));
  const Bytes each = cache.stats().bytes;
  EXPECT_GE(each, 20'000_B) << "the code and its key";
  cache.set_limits({.bytes = each * 2});
  for (const int i : {2, 3, 4}) {
    EXPECT_TRUE(get(one, i, std::to_string(i) + std::string(10'000, ' ')));
    EXPECT_LE(cache.stats().bytes, each * 2);
  }
  EXPECT_EQ(cache.stats().variants, 2U);
  EXPECT_TRUE(get(one, 5, "5" + std::string(100'000, ' ')));
  EXPECT_EQ(cache.stats().variants, 1U);
  EXPECT_TRUE(has(one, 5));
  EXPECT_TRUE(get(one, 6, "6"));
  EXPECT_EQ(cache.stats().variants, 1U);
  EXPECT_TRUE(has(one, 6));
}

TEST_F(VariantCacheTest, without_room_for_any_each_call_compiles_and_gets_its_variant) {
  cache.set_limits({.variants = 0});
  EXPECT_TRUE(get(one, 1, "1"));
  EXPECT_TRUE(get(one, 1, "1"));
  EXPECT_EQ(target->compiles, 2U);
  EXPECT_EQ(cache.stats().variants, 0U);
  EXPECT_EQ(cache.stats().bytes, 0_B);
}

TEST_F(VariantCacheTest, kernel_objects_that_are_made_anew_for_each_call_do_not_pile_up) {
  cache.set_limits({.variants = 10});
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(get(KernelId::next(), 1, "1"));
  EXPECT_EQ(target->compiles, 1U);
  EXPECT_EQ(cache.stats().variants, 1U);
  EXPECT_LT(cache.stats().bytes, 10_KiB);
}

TEST_F(VariantCacheTest, a_hundred_thousand_variants_take_no_more_memory_than_the_limit) {
  cache.set_limits({.variants = 500, .bytes = 1_MiB});
  Bytes most{};
  const int count = testing::is_shortened() ? 10'000 : 100'000;
  for (int i = 0; i < count; ++i) {
    const auto variant = get(one, i, std::to_string(i % 256) + " #" + std::to_string(i));
    ASSERT_TRUE(variant);
    const CacheStats stats = cache.stats();
    ASSERT_LE(stats.variants, 500U);
    most = std::max(most, stats.bytes);
  }
  EXPECT_LE(most, 1_MiB);
  EXPECT_EQ(cache.stats().evictions, static_cast<size_t>(count) - cache.stats().variants);
}

TEST_F(VariantCacheTest, clear_drops_the_cache_s_reference_and_nothing_else) {
  const auto kept = get(one, 1, "1");
  const hal::ResourceId pipeline = kept.value()->pipeline->id();
  cache.clear();
  EXPECT_EQ(cache.stats().variants, 0U);
  EXPECT_EQ(cache.stats().bytes, 0_B);
  EXPECT_EQ(cache.stats().evictions, 0U) << "nobody had to make room";
  EXPECT_EQ(kept.value()->ref_count(), 1U);
  EXPECT_EQ(kept.value()->pipeline->id(), pipeline);
  EXPECT_FALSE(get(one, 1, "1").value() == kept.value());
}

// A pipeline's destructor may run code of others, such as unloading an object.
TEST_F(VariantCacheTest, variants_are_dropped_with_no_lock_held) {
  class Watched final : public StubTarget {
   public:
    VariantCache* cache = nullptr;
    Result<Ref<hal::Pipeline>> load(hal::Device& on, const CompileJob& job,
                                    std::span<const std::byte>) override {
      const auto asks = std::shared_ptr<int>(new int, [this](int* p) {
        delete p;
        if (cache != nullptr) cache->stats();
      });
      return on.create_pipeline(
          {job.kernel, hal::HostFunction([asks](const hal::HostGroup&) {}), 1, {}});
    }
  };
  const auto watched = std::make_shared<Watched>();
  VariantCache asked(device, watched, nullptr, {.variants = 1});
  watched->cache = &asked;
  for (const int i : {1, 2})
    EXPECT_TRUE(asked.get(one, signature_of(i), making(std::to_string(i))));
  asked.set_limits({.variants = 0});
  asked.set_limits({});
  EXPECT_TRUE(asked.get(one, signature_of(3), making("3")));
  asked.clear();
  watched->cache = nullptr;
}

// Warming up

TEST_F(VariantCacheTest, warming_up_compiles_all_of_them_with_few_runs_of_the_compiler) {
  std::vector<VariantCache::Wanted> wanted;
  for (int i = 0; i < 200; ++i) wanted.push_back({one, signature_of(i), making(std::to_string(i))});
  EXPECT_THAT(cache.warm_up(wanted),
              Each(Not(::testing::Truly([](const Failure& f) { return static_cast<bool>(f); }))));
  EXPECT_EQ(target->compiles, 200U);
  EXPECT_LE(target->batches, 200U / 4);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(has(one, i));
  EXPECT_EQ(cache.stats().compiles, 200U);
  expect_sums();
  cache.warm_up(wanted);
  EXPECT_EQ(target->compiles, 200U) << "they are there";
}

TEST_F(VariantCacheTest, warming_up_says_of_each_why_it_failed_and_makes_the_others) {
  const Failure cause(ErrorCode::usage, "no such argument");
  const std::vector<VariantCache::Wanted> wanted{
      {one, signature_of(1), making("1")},
      {one, signature_of(2), making("error two")},
      {one, signature_of(3), [&]() -> Result<CompileJob> { return cause; }},
      {one, signature_of(4), making("unloadable")},
      {one, signature_of(5), []() -> Result<CompileJob> { throw std::runtime_error("five"); }},
      {two, signature_of(6), making("1")},
      {two, signature_of(7), making("error two")}};
  const std::vector<Failure> failures = cache.warm_up(wanted);
  ASSERT_EQ(failures.size(), 7U);
  EXPECT_FALSE(failures[0]);
  EXPECT_THAT(failures[1].message(), HasSubstr("error two"));
  EXPECT_EQ(failures[2], cause);
  EXPECT_THAT(failures[3].message(), HasSubstr("does not load"));
  EXPECT_THAT(failures[4].message(), HasSubstr("five"));
  EXPECT_FALSE(failures[5]);
  EXPECT_EQ(failures[6], failures[1]) << "one compile, one cause";
  EXPECT_TRUE(has(one, 1));
  EXPECT_TRUE(has(two, 6));
  EXPECT_EQ(cache.stats().variants, 1U);
  expect_sums();
}

TEST_F(VariantCacheTest, warming_up_nothing_does_nothing) {
  EXPECT_TRUE(cache.warm_up({}).empty());
}

TEST_F(VariantCacheTest, two_that_warm_up_the_same_in_different_order_do_not_wait_for_ever) {
  std::vector<VariantCache::Wanted> forth;
  for (int i = 0; i < 40; ++i) forth.push_back({one, signature_of(i), making(std::to_string(i))});
  std::vector<VariantCache::Wanted> back(forth.rbegin(), forth.rend());
  {
    const sync::Thread other("other", [&] { cache.warm_up(back); });
    cache.warm_up(forth);
  }
  EXPECT_EQ(target->compiles, 40U);
  EXPECT_EQ(cache.stats().variants, 40U);
}

TEST_F(VariantCacheTest, the_text_is_logged_for_a_verbose_kernel_and_for_the_topic) {
  std::vector<std::string> lines;
  const logging::Sink before =
      logging::set_sink([&](const logging::Message& m) { lines.emplace_back(m.text); });
  const bool was_on = logging::enabled(logging::Topic::kernels);
  logging::set_enabled(logging::Topic::kernels, false);
  EXPECT_TRUE(get(one, 1, "1"));
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(cache.get(one, signature_of(2), [] {
    CompileJob job = stub_job("2 is the text");
    job.verbose = true;
    return Result<CompileJob>(job);
  }));
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("2 is the text"), HasSubstr("stub"))));
  logging::set_enabled(logging::Topic::kernels, true);
  EXPECT_TRUE(get(one, 3, "3 is the text"));
  EXPECT_THAT(lines, Contains(HasSubstr("3 is the text")));
  logging::set_enabled(logging::Topic::kernels, was_on);
  logging::set_sink(before);
}

}  // namespace
}  // namespace holdfast::kernel
