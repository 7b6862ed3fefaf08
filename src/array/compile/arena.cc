#include "holdfast/array/compile/arena.h"

#include <algorithm>

#include "holdfast/base/rounding.h"

namespace holdfast::array {

Arena::Range Arena::allocate(Bytes size) {
  const Bytes rounded{ceil_div(size.value, kAlignment) * kAlignment};
  if (!rounded) return {};
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->bytes.length < rounded) continue;
    if (best == free_.end() || it->bytes.length < best->bytes.length) best = it;
  }
  if (best == free_.end()) {
    // A free range at the end grows.
    Range last{{size_, {}}, 0};
    if (!free_.empty() && free_.back().bytes.end() == size_) {
      last = free_.back();
      free_.pop_back();
    }
    last.bytes.length = rounded;
    size_ = last.bytes.end();
    return last;
  }
  const Range given{{best->bytes.offset, rounded}, best->last_wave};
  best->bytes = {best->bytes.offset + rounded, best->bytes.length - rounded};
  if (best->bytes.empty()) free_.erase(best);
  return given;
}

void Arena::free(ByteRange range, uint32_t last_wave) {
  if (range.empty()) return;
  Range given{range, last_wave};
  auto next = std::ranges::find_if(
      free_, [&](const Range& other) { return other.bytes.offset > range.offset; });
  if (next != free_.end() && next->bytes.offset == given.bytes.end()) {
    given.bytes.length += next->bytes.length;
    given.last_wave = std::max(given.last_wave, next->last_wave);
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    Range& before = *std::prev(next);
    if (before.bytes.end() == given.bytes.offset) {
      before.bytes.length += given.bytes.length;
      before.last_wave = std::max(before.last_wave, given.last_wave);
      return;
    }
  }
  free_.insert(next, given);
}

}  // namespace holdfast::array
