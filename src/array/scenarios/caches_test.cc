// The kernel cache from outside: artefacts on disk, errors cold and warm, many tasks at once,
// callers without measure.

#include "holdfast/array/scenarios/interlude_test.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/hal/pipeline.h"
#include "holdfast/kernel/scenarios/adding_target_test.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast {
namespace {

using kernel::Code;
using kernel::CompileJob;
using kernel::DiskCache;
using kernel::Target;
using testing::TemporaryFolder;
using testing::until;
using testing::Variable;
using testing::World;

// As a new process finds it: a device whose kernel cache is empty, and the disk as it was left.
class Start {
 public:
  Start(World& world, std::shared_ptr<Target> target, std::shared_ptr<DiskCache> disk,
        kernel::CacheLimits limits = {})
      : device(
            world.open({.queues = 2, .helpers = 0}),
            {.runtime = {.reaper = false},
             .kernels = {.limits = limits, .target = std::move(target), .disk = std::move(disk)}}),
        scope_(device.default_stream()) {}
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  kernel::CacheStats stats() const { return device.stats().kernels; }

  const Device device;

 private:
  UseStream scope_;
};

// Passes everything on.
class WrappedTarget : public kernel::WrappingTarget {
 public:
  WrappedTarget() : WrappingTarget(std::make_shared<kernel::CountedTarget>(cpu_info())) {}

 private:
  static hal::DeviceInfo cpu_info() { return hal::CpuDevice::open({.helpers = 0})->info(); }
};

// Says that it compiled `a * 2`, and compiled `a + 100`.
class StaleTarget final : public WrappedTarget {
 public:
  Result<Code> compile(const CompileJob& job) override {
    CompileJob other = job;
    const std::string wanted = "a[i] * 2";
    const size_t at = other.code.text.find(wanted);
    if (at != std::string::npos) other.code.text.replace(at, wanted.size(), "a[i] + 100");
    return WrappedTarget::compile(other);
  }
};

float run_on(const Kernel& kernel, float x) {
  return run(kernel, Array(std::vector<float>{x})).item<float>();
}

// mlx#4275: an artefact that an earlier program left under the very same key is wrong. With the
// disk cache off nobody looks at it.
ARRAY_SCENARIO(mlx_4275_stale_artefact_with_the_disk_cache_off) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const TemporaryFolder folder;
  const Variable cache_dir("HOLDFAST_CACHE_DIR", folder.path().c_str());
  const Kernel by_two = elementwise_kernel("k", "a[i] * 2");
  {
    const Variable on("HOLDFAST_DISK_CACHE", nullptr);
    {
      const Start earlier(world, std::make_shared<StaleTarget>(), DiskCache::from_environment());
      ASSERT_EQ(run_on(by_two, 7), 107);
    }
    const Start misled(world, std::make_shared<WrappedTarget>(), DiskCache::from_environment());
    ASSERT_EQ(run_on(by_two, 7), 107) << "the artefact is one that would be used";
    ASSERT_EQ(misled.stats().disk_hits, 1U);
  }
  const Variable off("HOLDFAST_DISK_CACHE", "0");
  const Start start(world, std::make_shared<WrappedTarget>(), DiskCache::from_environment());
  EXPECT_EQ(run_on(by_two, 7), 14);
  EXPECT_EQ(start.stats().disk_hits, 0U);
  EXPECT_EQ(start.stats().compiles, 1U);
}

// With the disk cache on, an artefact of another source under the same name is another artefact.
ARRAY_SCENARIO(mlx_4275_artefact_of_another_source_under_the_same_name) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const TemporaryFolder folder;
  const auto target = std::make_shared<WrappedTarget>();
  struct Expected {
    const char* source;
    float result;
    uint64_t compiles;
    uint64_t disk_hits;
  };
  const std::vector<Expected> starts{{"a[i] * 2", 14, 1, 0},
                                     {"a[i] + 100", 107, 1, 0},
                                     {"a[i] * 2", 14, 0, 1},
                                     {"a[i] + 100", 107, 0, 1}};
  for (const Expected& expected : starts) {
    const Start start(world, target, std::make_shared<DiskCache>(folder.path()));
    EXPECT_EQ(run_on(elementwise_kernel("k", expected.source), 7), expected.result);
    if (world.has_faults()) continue;
    EXPECT_EQ(start.stats().compiles, expected.compiles) << expected.source;
    EXPECT_EQ(start.stats().disk_hits, expected.disk_hits) << expected.source;
  }
}

// What evaluating raises; empty: nothing.
std::string error_of(const Array& array) {
  try {
    async_eval(array);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

// mlx#3624: a failing compile leaves nothing behind that a later call could find.
ARRAY_SCENARIO(mlx_3624_failing_compile_leaves_no_entry) {
  ArrayRig rig(world);
  const Kernel broken = elementwise_kernel("k", "a[i] +* 2");
  const Array x(std::vector<float>{5});
  std::string first;
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    const Array y = run(broken, x);
    const std::string error = error_of(y);
    if (attempt == 1) first = error;
    EXPECT_EQ(error, first);
    EXPECT_EQ(error_of(y), first) << "a node that failed stays failed";
    EXPECT_EQ(error_of(run(elementwise_kernel("n", "a[i]"), y)), first)
        << "whoever depends on it hears the same";
    if (world.has_faults()) continue;
    EXPECT_EQ(rig.stats().kernels.variants, 0U);
    EXPECT_EQ(rig.stats().kernels.failures, attempt);
    EXPECT_EQ(rig.compiles(), attempt) << "each new call tries again, once";
    EXPECT_EQ(rig.stats().nodes_failed, 2 * attempt);
  }
  EXPECT_NE(first.find("'k'"), std::string::npos) << first;
  EXPECT_NE(first.find("a[i] +* 2"), std::string::npos) << first;
  EXPECT_EQ(run(elementwise_kernel("k", "a[i] + 2"), x).item<float>(), 7);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().kernels.variants, 1U);
  }
}

// A compile that fails for want of something, not for its text: the same kernel works later.
ARRAY_SCENARIO(mlx_3624_the_same_kernel_works_once_the_compiler_does) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  class Moody final : public WrappedTarget {
   public:
    Result<Code> compile(const CompileJob& job) override {
      if (refuses) return Failure(ErrorCode::environment, "no compiler today");
      return WrappedTarget::compile(job);
    }
    std::atomic<bool> refuses{true};
  };
  const auto target = std::make_shared<Moody>();
  const Start start(world, target, nullptr);
  const Kernel kernel = elementwise_kernel("k", "a[i] * 2");
  const Array x(std::vector<float>{5});
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Array y = run(kernel, x);
    EXPECT_THROW(async_eval(y), EnvironmentError);
    EXPECT_EQ(start.stats().variants, 0U);
  }
  target->refuses = false;
  EXPECT_EQ(run(kernel, x).item<float>(), 10);
}

// warp#1711: a bad kernel is told by the same call, in the same words, whatever is cached: building
// the node raises what can be seen without compiling, evaluating it all else.
ARRAY_SCENARIO(warp_1711_the_same_call_raises_cold_and_warm) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const TemporaryFolder folder;
  const auto target = std::make_shared<WrappedTarget>();
  const Kernel good = elementwise_kernel("k", "a[i] * 2");
  const Kernel bad = elementwise_kernel("k", "a[i] * nothing");
  std::vector<std::string> compile_errors;
  std::vector<std::string> call_errors;
  for (int start = 0; start < 3; ++start) {
    const Start cold(world, target, std::make_shared<DiskCache>(folder.path()));
    const Array x(std::vector<float>{3});
    for (int call = 0; call < 2; ++call) {
      for (const bool good_first : {false, true}) {
        if (good_first) {
          EXPECT_EQ(run(good, x).item<float>(), 6);
        }
        const Array y = run(bad, x);
        compile_errors.push_back(error_of(y));
        try {
          (void)good({x}, {.grid = {1, 1, 1},
                           .threadgroup = {1, 1, 1},
                           .output_shapes = {x.shape()},
                           .output_dtypes = {float32},
                           .constants = {{"T", float32}},
                           .params = {{"unheard_of", 1.0F}}});
          ADD_FAILURE() << "a param that the kernel does not have was taken";
        } catch (const UsageError& error) {
          call_errors.emplace_back(error.what());
        }
      }
    }
    if (world.has_faults()) continue;
    EXPECT_EQ(cold.stats().disk_hits, start == 0 ? 0U : 1U);
    EXPECT_EQ(cold.stats().compiles, start == 0 ? 1U : 0U);
  }
  EXPECT_NE(compile_errors.front().find("nothing"), std::string::npos);
  for (const std::string& error : compile_errors) EXPECT_EQ(error, compile_errors.front());
  for (const std::string& error : call_errors) EXPECT_EQ(error, call_errors.front());
}

// Compiles only once `ready` says so; false where that never came.
class GatedTarget final : public WrappedTarget {
 public:
  Result<Code> compile(const CompileJob& job) override {
    under_way.fetch_add(1);
    if (ready && !until(ready)) ADD_FAILURE() << "compiling '" << job.kernel << "' waited in vain";
    return WrappedTarget::compile(job);
  }
  std::function<bool()> ready{};  // set before the first compile
  std::atomic<uint64_t> under_way{0};
};

// godot#96052: one of them compiles, and goes on only once all others wait for it.
ARRAY_SCENARIO(godot_96052_many_threads_one_compile) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  // A simulated task is a whole stack of choices; eight show as much.
  const size_t tasks = world.mode() == World::Mode::adversary ? 8 : 32;
  const auto target = std::make_shared<GatedTarget>();
  const Start start(world, target, nullptr);
  // A fault may end a task before it asks.
  if (!world.has_faults()) {
    target->ready = [&] { return start.stats().waits == tasks - 1; };
  }
  const Kernel kernel = elementwise_kernel("k", "a[i] * 5");
  std::vector<sync::Thread> threads;
  for (size_t t = 0; t < tasks; ++t) {
    threads.push_back(world.task("t" + std::to_string(t), [&start, &kernel, t] {
      const UseStream scope(t % 2 == 0 ? start.device.default_stream()
                                       : start.device.new_stream("own"));
      EXPECT_EQ(run_on(kernel, static_cast<float>(t)), static_cast<float>(5 * t));
    }));
  }
  threads.clear();
  if (world.has_faults()) return;
  EXPECT_EQ(target->under_way.load(), 1U);
  EXPECT_EQ(start.stats().compiles, 1U);
  EXPECT_EQ(start.stats().waits, tasks - 1);
  EXPECT_EQ(start.device.stats().nodes_recorded, tasks);
}

// Neither compile can end before the other has begun.
ARRAY_SCENARIO(godot_96052_different_kernels_compile_in_parallel) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const auto target = std::make_shared<GatedTarget>();
  const Start start(world, target, nullptr);
  if (!world.has_faults()) {
    target->ready = [counted = target.get()] { return counted->under_way.load() == 2; };
  }
  const auto ask = [&start](const char* expression, float expected) {
    const UseStream scope(start.device.new_stream("own"));
    EXPECT_EQ(run_on(elementwise_kernel("k", expression), 3), expected);
  };
  const auto other = world.task("other", [&ask] { ask("a[i] * 6", 18); });
  ask("a[i] * 7", 21);
}

const Kernel& plus_n() {
  static const Kernel kernel(
      {.name = "k", .inputs = {"a"}, .outputs = {"y"}, .source = "y[0] = a[0] + N;"});
  return kernel;
}

// Variants 0, 1, ... of one kernel, a batch of them in each evaluation.
void make_variants(const Start& start, int64_t count, size_t batch, size_t limit) {
  const Array x(std::vector<float>{1});
  std::vector<Array> results;
  for (int64_t n = 0; n < count; ++n) {
    results.push_back(plus_n()({x}, {.grid = {1, 1, 1},
                                     .threadgroup = {1, 1, 1},
                                     .output_shapes = {{1}},
                                     .output_dtypes = {float32},
                                     .constants = {{"N", n}}})[0]);
    if (results.size() < batch) continue;
    async_eval(results);
    const auto last = static_cast<float>(n + 1);
    ASSERT_EQ(results.back().item<float>(), last);
    ASSERT_EQ(results.front().item<float>(), last + 1 - static_cast<float>(batch));
    results.clear();
    const Stats stats = start.device.stats();
    ASSERT_LE(stats.kernels.variants, limit);
    ASSERT_LE(stats.kernels.bytes, 10_MiB);
    ASSERT_LE(stats.active_memory(), Bytes{batch * 256 + 4096});
  }
}

ARRAY_SCENARIO(a_caller_that_makes_100000_variants) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const bool simulated = world.mode() == World::Mode::adversary;
  const size_t limit = simulated ? 8 : 100;
  // The full number in one mode is enough; 10,000 are a hundred times the limit.
  const int64_t many = testing::is_shortened() ? 2000 : 10'000;
  const bool all = world.mode() == World::Mode::plain && !has_sanitizer();
  const int64_t count = simulated ? 48 : all ? 100'000 : many;
  const Start start(world, std::make_shared<kernel::AddingTarget>(), nullptr, {.variants = limit});
  make_variants(start, count, limit / 2, limit);
  if (world.has_faults()) return;
  EXPECT_EQ(start.stats().compiles, static_cast<uint64_t>(count));
  EXPECT_EQ(start.stats().evictions, static_cast<uint64_t>(count) - limit);
  start.device.synchronize();
  EXPECT_EQ(start.device.stats().runtime.memory.deferred, Bytes{});
}

// Each evaluation needs four times as many variants as the cache may keep.
ARRAY_SCENARIO(a_graph_of_more_variants_than_the_cache_may_keep) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const bool simulated = world.mode() == World::Mode::adversary;
  const size_t limit = simulated ? 2 : 25;
  const int64_t count = simulated ? 16 : 1000;
  const Start start(world, std::make_shared<kernel::AddingTarget>(), nullptr, {.variants = limit});
  make_variants(start, count, 4 * limit, limit);
  if (world.has_faults()) return;
  EXPECT_GE(start.stats().compiles, static_cast<uint64_t>(count));
  EXPECT_LE(start.stats().compiles, 2 * static_cast<uint64_t>(count))
      << "once ahead and, where that was evicted before its turn, once more";
}

}  // namespace
}  // namespace holdfast
