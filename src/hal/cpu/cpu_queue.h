#pragma once

#include <atomic>
#include <deque>
#include <memory>

#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/pool.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cpu/cpu_executor.h"

namespace holdfast::hal {

// What the queues of one CPU device share. Outlives the device where a list could not be stopped.
struct CpuShared {
  explicit CpuShared(unsigned helpers) : pool("hf-help", helpers) {}

  sync::WorkerPool pool;
  std::atomic<bool> stopped{false};  // lost or closed: nothing new starts
  sync::Guarded<Failure> why;        // set before `stopped`

  const uint32_t fork_generation = sync::fork_generation();

  // Lost, closed, or in a forked child, where the threads do not exist; none while it works.
  Failure stop_cause() const;
  // The first cause stays.
  void stop(Failure cause);
};

// A queue whose lists run in order on a thread of its own or, where it is immediate, on that of
// whoever submits.
class CpuQueue final : public Queue {
 public:
  CpuQueue(DeviceId device, uint32_t index, Ref<HostTimeline> timeline,
           std::shared_ptr<CpuShared> shared, std::shared_ptr<std::atomic<uint64_t>> counter,
           std::function<Failure(const Queue&)> fail_submit, bool immediate);
  ~CpuQueue() override;

  // From now on execute() answers that the queue is closed.
  void refuse_new_work();
  // The thread ends once it has resolved what it was given; stop() the shared state first to have
  // it refuse that. One that users' code keeps past the deadline is left to run on alone.
  void join(sync::Deadline deadline);
  // Whether every list given so far is resolved.
  bool wait_idle(sync::Deadline deadline);
  // The process forked: the thread does not exist here.
  void forget_thread();

 protected:
  Failure execute(const Work& work) override;

 private:
  struct Worker;
  std::shared_ptr<Worker> worker_;
  std::function<Failure(const Queue&)> fail_submit_;
  bool immediate_;
  sync::Thread thread_;
};

}  // namespace holdfast::hal
