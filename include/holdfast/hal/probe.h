#pragma once

#include <cstddef>
#include <string_view>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/base/ref.h"
#include "holdfast/hal/access.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Allocation;
class Buffer;
class Resource;

// Tells a wrapping device about lives and host accesses, which commands do not show. The device
// puts its probe on every Buffer, Pipeline and Program that it hands out; Allocations use the probe
// of their Buffer. Other devices have no probe, and each call costs a test for null.
//
// Called on the task that acts, sometimes with locks of the runtime held: a probe must not wait,
// switch tasks, or call users' code. Probes of nested devices form a chain, outermost first; by
// default each call is passed on.
class Probe : public RefCounted {
 public:
  explicit Probe(Ref<Probe> next) : next_(std::move(next)) {}

  // An Allocation begins its life; nobody has used it yet.
  virtual void born(const Allocation& allocation) noexcept {
    if (next_) next_->born(allocation);
  }
  // Its last user is gone. Lists that hold it may still use it.
  virtual void died(const Allocation& allocation) noexcept {
    if (next_) next_->died(allocation);
  }
  // The Resource has no users and no holds left and is about to be destroyed. A probe that returns
  // true has taken a KeptResource, and is asked again when it drops that.
  virtual bool keeps(const Resource& resource) noexcept { return next_ && next_->keeps(resource); }
  // The same for memory that is about to go back to the device; true: the probe has taken a Ref.
  virtual bool keeps(Buffer& buffer) noexcept { return next_ && next_->keeps(buffer); }

  // The host is about to touch a range through a pointer, or has finished. An upload or a readback
  // makes both calls; a map makes one when it begins and one when it ends.
  virtual void host_access_begins(const Allocation& allocation, ByteRange range, Access access,
                                  std::string_view name) noexcept {
    if (next_) next_->host_access_begins(allocation, range, access, name);
  }
  virtual void host_access_ends(const Allocation& allocation, ByteRange range,
                                Access access) noexcept {
    if (next_) next_->host_access_ends(allocation, range, access);
  }

  // Which of n ranges to give out, if all of them are legal; less than n.
  virtual size_t choose_range(size_t n) noexcept { return next_ ? next_->choose_range(n) : 0; }

  // A kernel of this name is about to be compiled for the device. A failure returned here is
  // reported as the compiler's, and the compiler is not run.
  virtual Failure before_compile(std::string_view kernel) noexcept {
    return next_ ? next_->before_compile(kernel) : Failure();
  }

 private:
  Ref<Probe> next_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
