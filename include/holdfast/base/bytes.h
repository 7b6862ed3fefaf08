#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#pragma GCC visibility push(default)

namespace holdfast {

// A number of bytes: a size, a length or an offset. Arithmetic is that of uint64_t; code that takes
// numbers from users checks with ByteRange::fits_in, which cannot overflow.
struct Bytes {
  uint64_t value = 0;

  constexpr explicit operator bool() const noexcept { return value != 0; }
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  constexpr Bytes& operator+=(Bytes b) noexcept { return value += b.value, *this; }
  constexpr Bytes& operator-=(Bytes b) noexcept { return value -= b.value, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) noexcept { return {a.value + b.value}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) noexcept { return {a.value - b.value}; }
  friend constexpr Bytes operator*(Bytes a, uint64_t n) noexcept { return {a.value * n}; }
  friend constexpr Bytes operator/(Bytes a, uint64_t n) noexcept { return {a.value / n}; }
};

inline constexpr Bytes kMaxBytes{std::numeric_limits<uint64_t>::max()};

constexpr Bytes operator""_B(unsigned long long n) { return {n}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {n << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {n << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {n << 30}; }

// Half-open: [offset, offset + length).
struct ByteRange {
  Bytes offset;
  Bytes length;

  constexpr Bytes end() const noexcept { return offset + length; }
  constexpr bool empty() const noexcept { return length.value == 0; }
  constexpr bool fits_in(Bytes size) const noexcept {
    return offset <= size && length <= size - offset;
  }
  constexpr bool overlaps(const ByteRange& o) const noexcept {
    return offset < o.end() && o.offset < end() && !empty() && !o.empty();
  }
  constexpr bool contains(const ByteRange& o) const noexcept {
    return o.empty() || (offset <= o.offset && o.end() <= end());
  }
  // The smallest range that contains both; an empty range adds nothing.
  constexpr ByteRange hull(const ByteRange& o) const noexcept {
    if (empty()) return o;
    if (o.empty()) return *this;
    const Bytes lo = std::min(offset, o.offset);
    return {lo, std::max(end(), o.end()) - lo};
  }
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

// "768 B", "64.0 KiB", "1.5 GiB".
std::string to_string(Bytes bytes);
// Both sizes as to_string() formats them or, if two different sizes would look the same, in exact
// bytes: {"4100 B", "4096 B"}. For messages that compare.
std::pair<std::string, std::string> told_apart(Bytes a, Bytes b);

}  // namespace holdfast

#pragma GCC visibility pop
