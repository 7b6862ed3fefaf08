#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/base/bytes.h"

namespace holdfast::array {

// Gives out ranges of one block of memory, whose size is found on the way. Each range remembers the
// wave in which its bytes were last used, for whoever gets them next. Not thread-safe.
class Arena {
 public:
  static constexpr uint64_t kAlignment = 256;  // as the allocator's

  struct Range {
    ByteRange bytes;
    uint32_t last_wave = 0;  // of earlier lives; zero: none had it
  };
  // The smallest free range that will do, else new bytes at the end. Rounded up to kAlignment.
  Range allocate(Bytes size);
  // `last_wave`: the last one that uses it.
  void free(ByteRange range, uint32_t last_wave);

  Bytes size() const noexcept { return size_; }

 private:
  std::vector<Range> free_;  // in order, none touching the next
  Bytes size_;
};

}  // namespace holdfast::array
