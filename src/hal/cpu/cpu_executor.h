#pragma once

#include <atomic>

#include "holdfast/base/sync/pool.h"
#include "holdfast/hal/kernel_profile.h"
#include "holdfast/hal/queue.h"

namespace holdfast::hal {

class CpuPipeline final : public Pipeline {
 public:
  CpuPipeline(DeviceId device, PipelineDesc desc, std::shared_ptr<KernelProfile> profile);

  const HostFunction& function() const noexcept { return function_; }
  // What a group is expected to cost, from groups seen so far; decides whether help is worth
  // calling.
  uint64_t expected_ns_per_group() const noexcept {
    return ns_per_group_.load(std::memory_order_relaxed);
  }
  // Whether this dispatch should be timed: the first ones, then every sixteenth.
  bool wants_sample() noexcept;
  void add_sample(uint64_t ns_per_group) noexcept;
  KernelProfile& profile() const noexcept { return *profile_; }

 private:
  std::shared_ptr<KernelProfile> profile_;
  HostFunction function_;
  std::atomic<uint64_t> ns_per_group_{1'000'000};  // a kernel never seen is worth helping
  std::atomic<uint32_t> dispatches_{0};
};

// Runs the commands of a work: wave after wave, the groups of a wave in parallel where that pays.
// Returns the first failure; by then nothing of the list runs any more. Stops early once `stopped`
// is set, with `stop_cause`'s failure.
Failure run_commands(const Work& work, sync::WorkerPool& pool, const std::atomic<bool>& stopped,
                     const std::function<Failure()>& stop_cause);

}  // namespace holdfast::hal
