#pragma once

#include <map>
#include <vector>

#include "holdfast/hal/allocation.h"

namespace holdfast::hal {

// Which life each byte of each buffer is in, and whether anybody has touched it in that life. Not
// thread-safe.
class MemoryLives {
 public:
  void begin(BufferId buffer, ByteRange range, ResourceId life);
  // Somebody is about to touch the life for the first time; whether that is so. From then on it is
  // not.
  bool first_touch(BufferId buffer, ByteRange range, ResourceId life);
  // The parts of the range that are in this life still, if anybody touched it: bytes of a life that
  // nobody did touch may yet be needed by the life before. They are in none afterwards.
  std::vector<ByteRange> end(BufferId buffer, ByteRange range, ResourceId life);
  void forget(BufferId buffer) { buffers_.erase(buffer); }

 private:
  struct Stretch {
    uint64_t end = 0;
    ResourceId life;
    bool fresh = true;
  };
  using Stretches = std::map<uint64_t, Stretch>;
  // So that a stretch begins at `at`, if one covers it.
  static void cut(Stretches& stretches, uint64_t at);
  std::map<BufferId, Stretches> buffers_;
};

}  // namespace holdfast::hal
