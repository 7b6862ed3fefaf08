#pragma once

#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/kernel_profile.h"

namespace holdfast::hal {

class CudaCore;
struct CudaProgress;

// Measures kernels by events before and after each launch. What was measured reaches the
// KernelProfile once its list is done. Thread-safe; every call with the context current.
class CudaProfiler {
 public:
  struct Timed {
    std::string kernel;
    cu::CUevent before = nullptr;
    cu::CUevent after = nullptr;
  };

  KernelProfile& profile() noexcept { return profile_; }
  bool enabled() const noexcept { return profile_.enabled(); }

  // An event that was recorded on the stream; null where the driver gives none.
  cu::CUevent record(const CudaCore& core, cu::CUstream stream);
  // Of a launch that was refused.
  void give(cu::CUevent event);
  // The events of a list, whose value the driver has or will have. Collects, now and then.
  void add(const CudaCore& core, const CudaProgress& progress, uint64_t value,
           std::vector<Timed> timed);
  // Moves what is done to the profile.
  void collect(const CudaCore& core);
  void destroy(const CudaCore& core) noexcept;

 private:
  struct Pending {
    const CudaProgress* progress = nullptr;
    uint64_t value = 0;
    std::vector<Timed> timed;
  };
  KernelProfile profile_;
  sync::Mutex mutex_{sync::LockOrder::profiler};  // guards both
  std::vector<Pending> pending_ HOLDFAST_GUARDED_BY(mutex_);
  std::vector<cu::CUevent> spare_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::hal
