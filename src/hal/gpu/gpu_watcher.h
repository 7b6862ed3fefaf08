#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/gpu/gpu_core.h"
#include "holdfast/hal/timeline.h"
#include "holdfast/hal/unique_fd.h"

namespace holdfast::hal {

class GpuQueue;

// Does for a device what only the host can: hands over lists that were kept back once what they
// wait for has happened, and makes exported descriptors readable. Its thread begins with the first
// such thing and lasts until the device is closed. Thread-safe.
class GpuWatcher : public std::enable_shared_from_this<GpuWatcher> {
 public:
  explicit GpuWatcher(std::shared_ptr<GpuCore> core);

  // Before anything else. They outlive the thread.
  void set_queues(std::vector<GpuQueue*> queues);
  // From now on there is a thread. A failure: none can be had, or nothing to wake it by.
  Failure begin();
  // Something was kept back, or the device was stopped. Nothing where there is no thread.
  void wake() noexcept;
  // A descriptor that becomes readable once the Point, of one of the queues, is resolved.
  Result<UniqueFd> watch(const Point& point);

  // The device is closed. Where it has ended, the thread is joined; else it runs on alone until
  // then.
  void finish(bool ended);
  // The process forked: the thread does not exist here.
  void forget_thread();

 private:
  void run();
  // Whether some are left.
  bool look_at_exports();

  std::shared_ptr<GpuCore> core_;
  std::vector<GpuQueue*> queues_;
  UniqueFd wake_fd_;
  std::atomic<bool> running_{false};

  struct Export {
    Point point;
    UniqueFd descriptor;
  };
  sync::Mutex mutex_;  // guards all below, and the change of running_
  std::vector<Export> exports_ HOLDFAST_GUARDED_BY(mutex_);
  bool finishing_ HOLDFAST_GUARDED_BY(mutex_) = false;
  sync::Thread thread_;
};

}  // namespace holdfast::hal
