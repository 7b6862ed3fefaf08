#include "workloads/growing_scratch.h"

#include <gtest/gtest.h>

#include <optional>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/testing/stub_cuda.h"
#include "holdfast/testing/variable.h"

// Workload 4 computes what it must on each of its devices, whatever the policy.

namespace holdfast::workloads {
namespace {

using testing::StubLaunch;
using testing::Variable;

void check(const std::string& device, std::optional<Ablation> policy) {
  std::optional<ScopedAblation> ablation;
  if (policy) ablation.emplace(*policy);
  GrowingScratch workload;
  workload.device = device;
  workload.launches = 700;  // the scratch heap grows, and starts again
  const GrowingScratchResult result = run(workload);
  EXPECT_EQ(result.checked, 8U);
  EXPECT_EQ(result.wrong, 0U);
  if (!policy) {
    EXPECT_EQ(result.unasked_waits(), 0U);
  }
}

void check_policies(const std::string& device) {
  check(device, std::nullopt);
  check(device, Ablation::fifo_of_three_drains);
  check(device, Ablation::drain_every_32_flushes);
}

TEST(GrowingScratchWorkload, is_right_on_the_cpu) { check_policies("cpu"); }

// What the PTX does, but for the time it takes.
int stub_launch(const StubLaunch& launch) {
  const auto* const metadata = stub_cuda::pointer_of<const uint64_t>(launch.argument<uint64_t>(0));
  auto* const scratch = stub_cuda::pointer_of<uint64_t>(launch.argument<uint64_t>(8));
  uint64_t& last = scratch[metadata[1] / 8 - 1];
  scratch[0] = metadata[0];
  last = 2 * metadata[0];
  *stub_cuda::pointer_of<uint64_t>(launch.argument<uint64_t>(16)) = scratch[0] + last + metadata[1];
  return 0;
}
int stub_next_stage(const StubLaunch& launch) {
  *stub_cuda::pointer_of<uint64_t>(launch.argument<uint64_t>(8)) +=
      *stub_cuda::pointer_of<uint64_t>(launch.argument<uint64_t>(0));
  return 0;
}

TEST(GrowingScratchWorkload, is_right_on_cuda) {
  if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
  testing::stub_cuda_control().reset();
  testing::stub_cuda_control().register_kernel("growing_scratch_launch", stub_launch);
  testing::stub_cuda_control().register_kernel("growing_scratch_next_stage", stub_next_stage);
  const Variable driver("HOLDFAST_CUDA_DRIVER", testing::stub_cuda_path().c_str());
  const Variable any_image("HOLDFAST_STUB_CUDA_IDLE", "1");
  check_policies("cuda");
}

TEST(GrowingScratchWorkload, refuses_a_device_that_it_has_no_kernels_for) {
  EXPECT_THROW(check("vulkan", std::nullopt), UsageError);
}

}  // namespace
}  // namespace holdfast::workloads
