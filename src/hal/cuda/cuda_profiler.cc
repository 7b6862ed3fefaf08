#include "holdfast/hal/cuda/cuda_profiler.h"

#include <utility>

#include "holdfast/hal/cuda/cuda_core.h"

namespace holdfast::hal {
namespace {

// Lists that are profiled before what is done is looked for.
constexpr size_t kPendingLists = 64;

}  // namespace

cu::CUevent CudaProfiler::record(const CudaCore& core, cu::CUstream stream) {
  cu::CUevent event = nullptr;
  {
    const sync::Lock lock(mutex_);
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    }
  }
  if (event == nullptr && core.cu.cuEventCreate(&event, 0) != cu::CUDA_SUCCESS) return nullptr;
  if (core.cu.cuEventRecord(event, stream) == cu::CUDA_SUCCESS) return event;
  (void)core.cu.cuEventDestroy(event);
  return nullptr;
}

void CudaProfiler::give(cu::CUevent event) {
  const sync::Lock lock(mutex_);
  spare_.push_back(event);
}

void CudaProfiler::add(const CudaCore& core, const CudaProgress& progress, uint64_t value,
                       std::vector<Timed> timed) {
  size_t waiting = 0;
  {
    const sync::Lock lock(mutex_);
    pending_.push_back({&progress, value, std::move(timed)});
    waiting = pending_.size();
  }
  if (waiting % kPendingLists == 0) collect(core);
}

void CudaProfiler::collect(const CudaCore& core) {
  const sync::Lock lock(mutex_);
  std::erase_if(pending_, [&](Pending& pending) {
    mutex_.assert_held();
    if (core.look(const_cast<CudaProgress&>(*pending.progress)) < pending.value) return false;
    for (const Timed& timed : pending.timed) {
      float milliseconds = 0;
      const bool known =
          timed.before != nullptr && timed.after != nullptr &&
          core.cu.cuEventElapsedTime(&milliseconds, timed.before, timed.after) == cu::CUDA_SUCCESS;
      if (known) {
        profile_.add(timed.kernel, 1,
                     std::chrono::duration_cast<sync::Duration>(
                         std::chrono::duration<double, std::milli>(milliseconds)));
      }
      for (const cu::CUevent event : {timed.before, timed.after}) {
        if (event != nullptr) spare_.push_back(event);
      }
    }
    return true;
  });
}

void CudaProfiler::destroy(const CudaCore& core) noexcept {
  const sync::Lock lock(mutex_);
  for (const Pending& pending : pending_) {
    for (const Timed& timed : pending.timed) {
      for (const cu::CUevent event : {timed.before, timed.after}) {
        if (event != nullptr) (void)core.cu.cuEventDestroy(event);
      }
    }
  }
  pending_.clear();
  for (const cu::CUevent event : spare_) (void)core.cu.cuEventDestroy(event);
  spare_.clear();
}

}  // namespace holdfast::hal
