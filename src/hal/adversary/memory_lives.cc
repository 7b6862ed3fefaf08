#include "holdfast/hal/adversary/memory_lives.h"

#include <iterator>

namespace holdfast::hal {

void MemoryLives::cut(Stretches& stretches, uint64_t at) {
  const auto after = stretches.lower_bound(at);
  if (after == stretches.begin()) return;
  const auto before = std::prev(after);
  if (before->second.end <= at) return;
  Stretch rest = before->second;
  before->second.end = at;
  stretches.emplace(at, rest);
}

void MemoryLives::begin(BufferId buffer, ByteRange range, ResourceId life) {
  if (range.empty()) return;
  Stretches& stretches = buffers_[buffer];
  const uint64_t first = range.offset.value;
  const uint64_t last = range.end().value;
  cut(stretches, first);
  cut(stretches, last);
  stretches.erase(stretches.lower_bound(first), stretches.lower_bound(last));
  stretches.emplace(first, Stretch{last, life, true});
}

bool MemoryLives::first_touch(BufferId buffer, ByteRange range, ResourceId life) {
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return false;
  bool first = false;
  const uint64_t last = range.end().value;
  for (auto at = found->second.lower_bound(range.offset.value);
       at != found->second.end() && at->first < last; ++at) {
    if (at->second.life != life) continue;
    first = first || at->second.fresh;
    at->second.fresh = false;
  }
  return first;
}

std::vector<ByteRange> MemoryLives::end(BufferId buffer, ByteRange range, ResourceId life) {
  std::vector<ByteRange> parts;
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return parts;
  const uint64_t last = range.end().value;
  for (auto at = found->second.lower_bound(range.offset.value);
       at != found->second.end() && at->first < last;) {
    if (at->second.life != life) {
      ++at;
      continue;
    }
    if (!at->second.fresh) {
      parts.push_back({Bytes{at->first}, Bytes{at->second.end - at->first}});
    }
    at = found->second.erase(at);
  }
  return parts;
}

}  // namespace holdfast::hal
