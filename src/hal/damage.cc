#include "holdfast/hal/damage.h"

namespace holdfast::hal {

Damage::Pieces::const_iterator Damage::first_reaching(ResourceId allocation,
                                                      ByteRange range) const {
  auto at = pieces_.lower_bound({allocation, range.offset.value});
  if (at == pieces_.begin()) return at;
  const auto before = std::prev(at);
  const bool reaches = before->first.first == allocation && before->second.end > range.offset;
  return reaches ? before : at;
}

void Damage::add(ResourceId allocation, ByteRange range, const Failure& cause) {
  if (range.empty()) return;
  remove(allocation, range);
  pieces_.insert_or_assign({allocation, range.offset.value}, Piece{range.end(), cause});
}

void Damage::remove(ResourceId allocation, ByteRange range) {
  auto at = first_reaching(allocation, range);
  while (is_in(at, allocation, range)) {
    const Bytes begin{at->first.second};
    const Piece piece = at->second;
    at = pieces_.erase(at);
    if (begin < range.offset) {
      pieces_.insert_or_assign({allocation, begin.value}, Piece{range.offset, piece.cause});
    }
    if (range.end() < piece.end) {
      pieces_.insert_or_assign({allocation, range.end().value}, Piece{piece.end, piece.cause});
      return;
    }
  }
}

Failure Damage::find(ResourceId allocation, ByteRange range) const {
  const auto at = first_reaching(allocation, range);
  return is_in(at, allocation, range) ? at->second.cause : Failure();
}

}  // namespace holdfast::hal
