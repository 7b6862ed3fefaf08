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

// What a device that wraps another is told about lives and host accesses, which no command shows.
// It puts its probe on every Buffer, Pipeline and Program that it hands out; Allocations take that
// of their Buffer. Elsewhere there is none, and each of these costs a test for null.
//
// Called on the task that acts, sometimes with locks of the runtime held: so none may wait, switch
// tasks, or call users' code. Probes of nested devices form a chain, outermost first; the default
// of each call passes it on.
class Probe : public RefCounted {
 public:
  explicit Probe(Ref<Probe> next) : next_(std::move(next)) {}

  // A life begins; nobody has used it.
  virtual void born(const Allocation& allocation) noexcept {
    if (next_) next_->born(allocation);
  }
  // Its last user is gone. Lists that hold it may use it yet.
  virtual void died(const Allocation& allocation) noexcept {
    if (next_) next_->died(allocation);
  }
  // Neither users nor lists have it any more: it is about to be destroyed. A probe that answers
  // true has taken a KeptResource, and is asked again when it drops that.
  virtual bool keeps(const Resource& resource) noexcept { return next_ && next_->keeps(resource); }
  // The same for memory that is about to go back to the device; true: the probe has taken a Ref.
  virtual bool keeps(Buffer& buffer) noexcept { return next_ && next_->keeps(buffer); }

  // The host is about to touch a range through a pointer, and has done so. An upload or a readback
  // is a pair of these; a map has them at its ends.
  virtual void host_access_begins(const Allocation& allocation, ByteRange range, Access access,
                                  std::string_view name) noexcept {
    if (next_) next_->host_access_begins(allocation, range, access, name);
  }
  virtual void host_access_ends(const Allocation& allocation, ByteRange range,
                                Access access) noexcept {
    if (next_) next_->host_access_ends(allocation, range, access);
  }

  // Which of n ranges to give out, where all of them may be; less than n.
  virtual size_t choose_range(size_t n) noexcept { return next_ ? next_->choose_range(n) : 0; }

  // A kernel of this name is about to be compiled for the device. A failure: it is taken for that
  // of the compiler, which is not run.
  virtual Failure before_compile(std::string_view kernel) noexcept {
    return next_ ? next_->before_compile(kernel) : Failure();
  }

 private:
  Ref<Probe> next_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
