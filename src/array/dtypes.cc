#include "holdfast/dtypes.h"

#include <utility>

namespace holdfast {
namespace {

Dtype promote_floats(Dtype a, Dtype b) {
  if (a == b) return a;
  // Neither two-byte float holds the values of the other.
  if (size_of(a) == size_of(b)) return Dtype::float32;
  return size_of(a) > size_of(b) ? a : b;
}

Dtype promote_integers(Dtype a, Dtype b) {
  if (is_signed_integer(a) == is_signed_integer(b)) return size_of(a) > size_of(b) ? a : b;
  if (is_signed_integer(b)) std::swap(a, b);
  if (size_of(a) > size_of(b)) return a;
  switch (b) {
    case Dtype::uint8: return Dtype::int16;
    case Dtype::uint16: return Dtype::int32;
    case Dtype::uint32: return Dtype::int64;
    default: return Dtype::float32;
  }
}

}  // namespace

Dtype promote(Dtype a, Dtype b) {
  if (is_floating(a) && is_floating(b)) return promote_floats(a, b);
  if (is_floating(a) || b == Dtype::bool_) return a;
  if (is_floating(b) || a == Dtype::bool_) return b;
  return promote_integers(a, b);
}

}  // namespace holdfast
