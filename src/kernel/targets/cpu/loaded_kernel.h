#pragma once

#include <memory>
#include <string>

#include "holdfast/hal/pipeline.h"
#include "holdfast/kernel/interface.h"
#include "holdfast/kernel/targets/cpu/fiber_group.h"
#include "holdfast/kernel/targets/cpu/kernel_abi.h"
#include "holdfast/kernel/targets/cpu/shared_object.h"

namespace holdfast::kernel {

// A kernel that the CPU device can call: one group of the device runs some of its threadgroups.
// Immutable; called from several threads at once.
class LoadedKernel {
 public:
  using Entry = void (*)(const hf_call*);
  LoadedKernel(std::string name, const Interface& interface,
               std::shared_ptr<const SharedObject> object, Entry entry,
               std::shared_ptr<FiberGroupPool> fibers);

  // Throws ExecutionError for what the kernel raises, and where the call does not fit its
  // interface.
  void run(const hal::HostGroup& group) const;

 private:
  void check(const hal::HostGroup& group) const;

  std::string name_;
  size_t bindings_;
  size_t parameter_bytes_;
  bool has_launch_block_;
  std::shared_ptr<const SharedObject> object_;
  Entry entry_;
  std::shared_ptr<FiberGroupPool> fibers_;
};

}  // namespace holdfast::kernel
