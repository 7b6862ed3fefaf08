// The cache from outside: artefacts on disk, errors cold and warm, callers without measure.

#include "holdfast/hal/pipeline.h"
#include "holdfast/kernel/scenarios/adding_target_test.h"
#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/kernel/targets/cpu/cpu_text.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using testing::TemporaryFolder;
using testing::Variable;
using testing::World;

Kernel elementwise(const std::string& expression) {
  return Kernel({.name = "k",
                 .inputs = {"a"},
                 .outputs = {"y"},
                 .source = "uint i = thread_position_in_grid.x;\ny[i] = " + expression + ";"});
}

const CallSignature kFloats{.inputs = {{Dtype::float32, 1}}, .outputs = {{Dtype::float32, 1}}};

CompileJob job_of(const Kernel& kernel) {
  CompileJob job;
  job.kernel = kernel.name();
  job.variant = describe(kernel.definition(), kFloats);
  job.code = cpu_text(kernel.definition(), kFloats);
  return job;
}

float run_one(KernelRuntime& kernels, runtime::Stream& stream, const Kernel& kernel, float x) {
  const TestArray in = array_of(stream, std::vector<float>{x}, "x");
  const TestArray out = empty_array(stream, Dtype::float32, 1, "y");
  const std::array inputs{in.ref()};
  const std::array outputs{out.ref()};
  kernels.launch(stream, kernel, {.inputs = inputs, .outputs = outputs});
  return values_of<float>(stream, out).at(0);
}

KERNEL_SCENARIO(mlx_4275_stale_artefact_with_the_disk_cache_off) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const TemporaryFolder folder;
  testing::Rig rig(world);
  const auto stream = rig.stream("main");
  const Kernel wanted = elementwise("a[i] * 2");
  const auto target = std::make_shared<CountedTarget>(rig.device->info());
  CompileJob stale = job_of(wanted);
  stale.code.text.replace(stale.code.text.find("a[i] * 2"), 8, "a[i]+100");
  const Code wrong = target->compile(stale).or_raise();
  const ContentKey key(job_of(wanted), target->version().or_raise());
  const Variable cache_dir("HOLDFAST_CACHE_DIR", folder.path().c_str());
  {
    const Variable on("HOLDFAST_DISK_CACHE", nullptr);
    const auto disk = DiskCache::from_environment();
    disk->write(key, wrong);
    KernelRuntime kernels(rig.context, {.target = target, .disk = disk});
    ASSERT_EQ(run_one(kernels, *stream, wanted, 7), 107)
        << "the artefact is one that would be used";
  }
  const Variable off("HOLDFAST_DISK_CACHE", "0");
  KernelRuntime kernels(rig.context, {.target = target, .disk = DiskCache::from_environment()});
  EXPECT_EQ(run_one(kernels, *stream, wanted, 7), 14);
  EXPECT_EQ(kernels.cache().stats().disk_hits, 0U);
}

KERNEL_SCENARIO(warp_1711_the_same_error_cold_and_warm) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  const TemporaryFolder folder;
  testing::Rig rig(world);
  const auto stream = rig.stream("main");
  const Kernel good = elementwise("a[i] * 2");
  const Kernel bad = elementwise("a[i] * nothing");
  const auto target = std::make_shared<CountedTarget>(rig.device->info());
  std::vector<std::string> errors;
  for (int start = 0; start < 3; ++start) {
    // As a new process finds it: memory empty, the disk as it was left.
    KernelRuntime kernels(rig.context,
                          {.target = target, .disk = std::make_shared<DiskCache>(folder.path())});
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(run_one(kernels, *stream, good, 3), 6);
      try {
        run_one(kernels, *stream, bad, 3);
        ADD_FAILURE() << "a broken kernel compiled";
      } catch (const UsageError& error) {
        errors.emplace_back(error.what());
      }
    }
    EXPECT_EQ(kernels.cache().stats().disk_hits, start == 0 ? 0U : 1U);
  }
  for (const std::string& error : errors) EXPECT_EQ(error, errors.front());
}

KERNEL_SCENARIO(a_caller_that_makes_100000_variants) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) return;
  testing::Rig rig(world);
  const auto stream = rig.stream("main");
  KernelRuntime kernels(
      rig.context,
      {.limits = {.variants = 100}, .target = std::make_shared<AddingTarget>(), .disk = nullptr});
  const Kernel kernel =
      Kernel({.name = "k", .inputs = {"a"}, .outputs = {"y"}, .source = "y[0] = a[0] + N;"});
  const TestArray x = array_of(*stream, std::vector<float>{1}, "x");
  // The full number in one mode is enough; 10,000 are a hundred times the limit.
  const int64_t most = testing::is_shortened()                 ? 2000
                       : world.mode() == World::Mode::validate ? 10'000
                                                               : 100'000;
  const int64_t count = world.mode() == World::Mode::adversary ? 300 : most;
  const std::array inputs{x.ref()};
  for (int64_t n = 0; n < count; ++n) {
    const TestArray y = empty_array(*stream, Dtype::float32, 1, "y");
    const std::array outputs{y.ref()};
    const std::array<Constant, 1> constants{{{"N", n}}};
    kernels.launch(*stream, kernel, {.inputs = inputs, .outputs = outputs, .constants = constants});
    if (n % (count / 50) == 0) {
      EXPECT_EQ(values_of<float>(*stream, y).at(0), static_cast<float>(n + 1));
      const CacheStats stats = kernels.cache().stats();
      ASSERT_LE(stats.variants, 100U);
      ASSERT_LE(stats.bytes, 10_MiB);
    }
  }
  EXPECT_EQ(kernels.cache().stats().evictions, static_cast<uint64_t>(count) - 100);
}

}  // namespace
}  // namespace holdfast::kernel
