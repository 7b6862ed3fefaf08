#pragma once

#include <concepts>
#include <variant>

#include "holdfast/array.h"

namespace holdfast {

// An argument of an elementwise operation: an array, or a C++ number. A number takes the dtype of
// the arrays beside it, unless it is of a higher kind: a fraction with integers gives float32, an
// integer with bool gives int32 (int64 or uint64 where it needs them). So x * 2.0f stays float16
// where x is. Numbers are run-time parameters of the kernel: no array is made for them.
//
// A number that its dtype does not have: beside floats it is rounded; arithmetic with integers
// wraps around, as that of the elements does (and as in MLX); comparisons see it as it is, so that
// any integer array can be compared with any int64_t or uint64_t.
class Term {
 public:
  Term(const Array& array) : array_(array) {}
  Term(Array&& array) noexcept : array_(std::move(array)) {}
  Term(std::same_as<bool> auto value) : kind_(Kind::boolean), integer_(value ? 1 : 0) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Term(T value)
      : kind_(Kind::integer),
        beyond_(std::unsigned_integral<T> && static_cast<int64_t>(value) < 0),
        integer_(static_cast<int64_t>(value)) {
    static_assert(sizeof(T) <= sizeof(int64_t));
  }
  template <std::floating_point T>
  Term(T value) : kind_(Kind::fraction), fraction_(static_cast<double>(value)) {}

  enum class Kind : uint8_t { array, boolean, integer, fraction };
  Kind kind() const noexcept { return kind_; }
  // Only of an array.
  const Array& array() const noexcept { return array_; }
  // Only of numbers. Beyond int64_t: modulo 2^64.
  int64_t integer() const noexcept { return integer_; }
  // Whether an integer is above what int64_t has.
  bool is_beyond_int64() const noexcept { return beyond_; }
  double number() const noexcept {
    if (kind_ == Kind::fraction) return fraction_;
    return beyond_ ? static_cast<double>(static_cast<uint64_t>(integer_))
                   : static_cast<double>(integer_);
  }

 private:
  Kind kind_ = Kind::array;
  bool beyond_ = false;
  int64_t integer_ = 0;
  double fraction_ = 0;
  Array array_;
};

}  // namespace holdfast
