#pragma once

#include <memory>
#include <span>

#include "holdfast/hal/cuda/cuda_graph.h"
#include "holdfast/hal/gpu/gpu_queue.h"

namespace holdfast::hal {

// A stream.
class CudaQueue final : public GpuQueue {
 public:
  // `computes`: takes everything, not copies and fills alone.
  CudaQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
            const std::shared_ptr<CudaCore>& core, CudaProgress& progress, bool computes,
            std::shared_ptr<GpuWatcher> watcher, std::shared_ptr<std::atomic<uint64_t>> counter);
  ~CudaQueue() override;

  // How lists reached the driver. Any thread.
  struct Counts {
    uint64_t lists = 0;
    CudaGraphs::Counts graphs;
    // Of all lists, those that found an executable of their shape.
    double hit_rate() const noexcept {
      return lists == 0
                 ? 0
                 : static_cast<double>(graphs.launched - graphs.made) / static_cast<double>(lists);
    }
    friend Counts operator-(const Counts& a, const Counts& b) noexcept {
      return {a.lists - b.lists,
              {a.graphs.launched - b.graphs.launched, a.graphs.made - b.graphs.made}};
    }
  };
  Counts counts() const noexcept { return {lists_.load(), graphs_.counts()}; }

 protected:
  Failure hand_over(const Work& work, std::span<const Command* const> skipped,
                    ListFailure known) override;
  Failure hand_over_empty(const Work& work) override;

 private:
  Failure launch_and_signal(const CudaWork& work, std::span<const Command* const> skipped,
                            ListFailure known);
  // Makes the stream wait for the Points of other queues that the work waits for.
  Failure await(const Work& work);
  // The work's value is written after everything that the stream was given. Cannot fail with work
  // on the stream unless the device does.
  Failure signal(const Work& work);
  // Whether another stream writes the value: see CudaCore::write_counter_aside().
  bool writes_aside(TimelineValue value) const;

  std::shared_ptr<CudaCore> core_;
  CudaProgress& progress_;
  const bool computes_;
  CudaGraphs graphs_;
  std::atomic<uint64_t> lists_{0};  // with commands
};

}  // namespace holdfast::hal
