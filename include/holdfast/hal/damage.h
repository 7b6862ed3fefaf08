#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/ids.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// The bytes that failed work left bad, by Allocation, each with the failure that caused it. Bytes
// are identified by their Allocation's id, never by address: one life of a range does not damage
// the next. Exact, however many pieces there are. Exists only if something has failed; the Damage
// of a Point no longer changes. Not thread-safe.
class Damage {
 public:
  // The bytes are bad from now on, for this cause and no other.
  void add(ResourceId allocation, ByteRange range, const Failure& cause);
  // The bytes are good again.
  void remove(ResourceId allocation, ByteRange range);
  // Why the first bad byte of the range is bad; none if all bytes are good.
  Failure find(ResourceId allocation, ByteRange range) const;
  bool empty() const noexcept { return pieces_.empty(); }
  // Calls visit(ByteRange, const Failure&) for each bad piece of the range.
  template <typename Visit>
  void visit(ResourceId allocation, ByteRange range, const Visit& visit) const {
    for (auto at = first_reaching(allocation, range); is_in(at, allocation, range); ++at) {
      const Bytes begin = std::max(Bytes{at->first.second}, range.offset);
      const Bytes end = std::min(at->second.end, range.end());
      visit(ByteRange{begin, end - begin}, at->second.cause);
    }
  }
  // The same for every bad piece of every Allocation: visit(ResourceId, ByteRange, const Failure&).
  template <typename Visit>
  void visit_all(const Visit& visit) const {
    for (const auto& [key, piece] : pieces_) {
      const Bytes begin{key.second};
      visit(key.first, ByteRange{begin, piece.end - begin}, piece.cause);
    }
  }

 private:
  struct Piece {
    Bytes end;
    Failure cause;
  };
  // By Allocation and first byte; disjoint.
  using Pieces = std::map<std::pair<ResourceId, uint64_t>, Piece>;

  Pieces::const_iterator first_reaching(ResourceId allocation, ByteRange range) const;
  bool is_in(Pieces::const_iterator at, ResourceId allocation, ByteRange range) const {
    return at != pieces_.end() && at->first.first == allocation && !range.empty() &&
           at->first.second < range.end().value;
  }

  Pieces pieces_;
};

// How a list failed.
struct ListFailure {
  Failure cause;
  // The bytes that are bad; all others that the list writes are good. Null: the device cannot tell,
  // and everything the list writes is bad.
  std::shared_ptr<const Damage> damage;

  explicit operator bool() const noexcept { return static_cast<bool>(cause); }
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
