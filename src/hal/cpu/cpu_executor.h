#pragma once

#include <atomic>

#include "holdfast/base/sync/pool.h"
#include "holdfast/hal/kernel_profile.h"
#include "holdfast/hal/list_damage.h"
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
// Commands that fail are told to `damage`; those that it forbids do not run, and all others do.
// Stops early once `stopped` is set. When it returns nothing of the list runs any more.
void run_commands(const Work& work, ListDamage& damage, sync::WorkerPool& pool,
                  const std::atomic<bool>& stopped);

}  // namespace holdfast::hal
