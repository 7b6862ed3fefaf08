#pragma once

#include <string_view>

#include "holdfast/hal/allocation.h"

namespace holdfast::hal {

// The host touches a range through its pointer for a scope: tells the device's probe, if it has
// one.
class HostTouch {
 public:
  HostTouch(const Allocation& allocation, ByteRange range, Access access, std::string_view name)
      : allocation_(allocation), range_(range), access_(access) {
    if (Probe* probe = allocation_.probe()) {
      probe->host_access_begins(allocation_, range_, access_, name);
    }
  }
  ~HostTouch() {
    if (Probe* probe = allocation_.probe()) {
      probe->host_access_ends(allocation_, range_, access_);
    }
  }
  HostTouch(const HostTouch&) = delete;
  HostTouch& operator=(const HostTouch&) = delete;

 private:
  const Allocation& allocation_;
  ByteRange range_;
  Access access_;
};

}  // namespace holdfast::hal
