#include "holdfast/base/range_set.h"

#include <algorithm>

namespace holdfast {

size_t RangeSet::first_ending_at(Bytes offset) const noexcept {
  const auto found = std::lower_bound(ranges_.begin(), ranges_.end(), offset,
                                      [](const ByteRange& r, Bytes o) { return r.end() < o; });
  return static_cast<size_t>(found - ranges_.begin());
}

bool RangeSet::overlaps_any(ByteRange range) const noexcept {
  for (size_t i = first_ending_at(range.offset); i < ranges_.size(); ++i) {
    if (ranges_[i].offset >= range.end()) return false;
    if (ranges_[i].overlaps(range)) return true;
  }
  return false;
}

bool RangeSet::contains_in_one(ByteRange range) const noexcept {
  const size_t i = first_ending_at(range.end());
  return i < ranges_.size() && ranges_[i].contains(range);
}

void RangeSet::insert(ByteRange range) {
  const size_t first = first_ending_at(range.offset);
  size_t last = first;
  while (last < ranges_.size() && ranges_[last].offset <= range.end()) {
    range = range.hull(ranges_[last]);
    ++last;
  }
  const auto at = ranges_.begin() + static_cast<std::ptrdiff_t>(first);
  if (last == first) {
    ranges_.insert(at, range);
    if (ranges_.size() > kMaxRanges) join_closest();
    return;
  }
  *at = range;
  ranges_.erase(at + 1, ranges_.begin() + static_cast<std::ptrdiff_t>(last));
}

void RangeSet::remove(ByteRange range) {
  if (range.empty()) return;
  for (size_t i = first_ending_at(range.offset); i < ranges_.size();) {
    const ByteRange present = ranges_[i];
    if (present.offset >= range.end()) return;
    if (!present.overlaps(range)) {
      ++i;
      continue;
    }
    const auto at = ranges_.begin() + static_cast<std::ptrdiff_t>(i);
    const ByteRange before{present.offset, std::max(range.offset, present.offset) - present.offset};
    const ByteRange after{range.end(), std::max(present.end(), range.end()) - range.end()};
    if (before.empty() && after.empty()) {
      ranges_.erase(at);
    } else if (before.empty()) {
      *at = after;
      return;
    } else {
      *at = before;
      ++i;
      if (after.empty()) continue;
      ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(i), after);
      return;
    }
  }
}

void RangeSet::join_closest() {
  size_t best = 0;
  Bytes smallest = kMaxBytes;
  for (size_t i = 0; i + 1 < ranges_.size(); ++i) {
    const Bytes gap = ranges_[i + 1].offset - ranges_[i].end();
    if (gap < smallest) {
      smallest = gap;
      best = i;
    }
  }
  ranges_[best] = ranges_[best].hull(ranges_[best + 1]);
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
}

}  // namespace holdfast
