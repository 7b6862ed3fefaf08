#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"

namespace holdfast::hal {

// Takes a share of a device's memory for the scope, unless it is kept.
class MemoryShare {
 public:
  MemoryShare(std::atomic<uint64_t>& used, Bytes size)
      : used_(used), size_(size), before_(used.fetch_add(size.value)) {}
  ~MemoryShare() {
    if (!kept_) used_.fetch_sub(size_.value);
  }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  void keep() noexcept { kept_ = true; }

  // Why the device cannot give it: one buffer has at most `most`, all have at most `limit`.
  Failure refusal(Bytes most, Bytes limit, std::string_view what) const;

 private:
  std::atomic<uint64_t>& used_;
  Bytes size_;
  Bytes before_;
  bool kept_ = false;
};

}  // namespace holdfast::hal
