#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/targets/cpu/kernel_abi.h"

namespace holdfast::kernel {

inline constexpr unsigned kMaxGroupThreads = 1024;
inline constexpr unsigned kSimdgroupLanes = 32;

// Runs the items of a threadgroup as fibers of the calling thread, so that they can meet at
// barriers. Each has a stack of its own with a guard page below it; stacks are kept for the next
// group.
//
// The order is fixed: simdgroups take turns from one stop to the next, be it a barrier or an
// operation of a simdgroup, and in each its lanes run one after another. So simdgroups advance
// together, as on GPUs, and nothing depends on chance. Items see no scheduler and no lock. A
// barrier costs an item one switch (bench row fiber_barrier).
//
// Lanes meet at an operation where they came to the same line. Those at an earlier line meet first,
// so that lanes which took a branch or stayed in a loop come to those that wait behind it. Lanes
// that returned, or wait elsewhere, do not count.
//
// One thread at a time; the next call may come from another.
class FiberGroup {
 public:
  static constexpr size_t kStackBytes = size_t{256} * 1024;
  using Item = void (*)(void* data, unsigned thread);

  FiberGroup();
  ~FiberGroup();
  FiberGroup(const FiberGroup&) = delete;
  FiberGroup& operator=(const FiberGroup&) = delete;

  // Runs item(data, t) for t in [0, threads); `host` says to the items who they are, `kernel` is
  // for messages. Throws the first exception of an item. ExecutionError where some items return
  // and others wait for them at a barrier, where a group's threads wait at different ones, and
  // where lanes are seen to meet in different rounds of a loop; EnvironmentError where the system
  // gives no stacks. The other items are then unwound from where they wait.
  void run(hf_host& host, std::string_view kernel, unsigned threads, Item item, void* data);

  // Called by items. Throw where no group runs, and to unwind an item that is given up.
  void barrier(unsigned line);
  void simd_barrier(unsigned line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Fiber groups that nobody uses now. Thread-safe; grows to as many as are used at once.
class FiberGroupPool {
 public:
  class Lease {
   public:
    explicit Lease(FiberGroupPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    FiberGroup& operator*() const noexcept { return *group_; }

   private:
    FiberGroupPool& pool_;
    std::unique_ptr<FiberGroup> group_;
  };

 private:
  // A leaf, and unknown to schedulers: a kernel is no place to switch tasks, since threadgroup
  // memory belongs to the thread.
  sync::LeafMutex mutex_;  // guards spare_
  std::vector<std::unique_ptr<FiberGroup>> spare_ HOLDFAST_GUARDED_BY(mutex_);
};

}  // namespace holdfast::kernel
