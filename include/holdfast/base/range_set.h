#pragma once

#include <boost/container/small_vector.hpp>

#include "holdfast/base/bytes.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Some of the bytes of one memory object: a sorted set of disjoint, non-touching ranges. Bounded:
// past kMaxRanges, adding joins the two neighbours with the smallest gap, so the set may claim
// bytes that were never added, never fewer. Removing joins nothing: what was removed stays so.
// Every operation costs at most one pass over the ranges.
class RangeSet {
 public:
  // Chosen by bench row hazard_slices: beyond it the cost of insertion shows.
  static constexpr size_t kMaxRanges = 32;

  RangeSet() = default;
  explicit RangeSet(ByteRange range) { add(range); }

  // Most sets have one range or none, so those are dealt with in place.
  bool overlaps(ByteRange range) const noexcept {
    if (ranges_.size() > 1) return overlaps_any(range);
    return !ranges_.empty() && ranges_[0].overlaps(range);
  }
  bool contains(ByteRange range) const noexcept {
    if (range.empty()) return true;
    if (ranges_.size() > 1) return contains_in_one(range);
    return !ranges_.empty() && ranges_[0].contains(range);
  }
  void add(ByteRange range) {
    if (range.empty()) return;
    if (ranges_.empty()) {
      ranges_.push_back(range);
    } else if (ranges_.size() > 1 || !ranges_[0].contains(range)) {
      insert(range);
    }
  }
  void remove(ByteRange range);
  void clear() noexcept { ranges_.clear(); }
  bool empty() const noexcept { return ranges_.empty(); }
  size_t size() const noexcept { return ranges_.size(); }
  auto begin() const noexcept { return ranges_.begin(); }
  auto end() const noexcept { return ranges_.end(); }

 private:
  bool overlaps_any(ByteRange range) const noexcept;
  bool contains_in_one(ByteRange range) const noexcept;
  void insert(ByteRange range);
  // The first range that ends at or after `offset`.
  size_t first_ending_at(Bytes offset) const noexcept;
  void join_closest();

  boost::container::small_vector<ByteRange, 1> ranges_;
};

}  // namespace holdfast

#pragma GCC visibility pop
