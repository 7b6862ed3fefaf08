#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// An argument of an elementwise operation: an array, or a C++ number. A number takes the dtype of
// the arrays beside it, unless it is of a higher kind: a fraction with integers gives float32, an
// integer with bool gives int32 (int64 or uint64 where it needs them). For example, x * 2.0f is
// float16 if x is. Numbers are run-time parameters of the kernel: no array is made for them.
//
// If the dtype cannot represent the number: with floats it is rounded; in integer arithmetic it
// wraps around, as the elements do (and as in MLX); comparisons use its true value, so that any
// integer array can be compared with any int64_t or uint64_t.
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
  // Only for arrays.
  const Array& array() const noexcept { return array_; }
  // Only for numbers. A value beyond int64_t is given modulo 2^64.
  int64_t integer() const noexcept { return integer_; }
  // Whether an integer is too large for int64_t.
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

// Operations, each a kernel in Holdfast's own language. Inputs are broadcast and may have any
// layout. Results have the dtype that promote() gives; scalars adapt to arrays (see Term). Two-byte
// floats are computed in float32.

// Arithmetic.
Array add(const Term& a, const Term& b, const On& on = {});
Array subtract(const Term& a, const Term& b, const On& on = {});
Array multiply(const Term& a, const Term& b, const On& on = {});
Array divide(const Term& a, const Term& b, const On& on = {});  // of integers: float32
// Rounded down, as in Python. Integers: a division by zero gives zero.
Array floor_divide(const Term& a, const Term& b, const On& on = {});
Array remainder(const Term& a, const Term& b, const On& on = {});
Array power(const Term& a, const Term& b, const On& on = {});
Array maximum(const Term& a, const Term& b, const On& on = {});  // NaN wins
Array minimum(const Term& a, const Term& b, const On& on = {});  // NaN wins
Array negative(const Array& a, const On& on = {});
Array abs(const Array& a, const On& on = {});
Array sign(const Array& a, const On& on = {});
Array square(const Array& a, const On& on = {});
Array clip(const Array& a, const Term& low, const Term& high, const On& on = {});

// Floats; integers and bool become float32 first.
Array exp(const Array& a, const On& on = {});
Array expm1(const Array& a, const On& on = {});
Array log(const Array& a, const On& on = {});
Array log1p(const Array& a, const On& on = {});
Array log2(const Array& a, const On& on = {});
Array sqrt(const Array& a, const On& on = {});
Array rsqrt(const Array& a, const On& on = {});
Array sin(const Array& a, const On& on = {});
Array cos(const Array& a, const On& on = {});
Array tan(const Array& a, const On& on = {});
Array sinh(const Array& a, const On& on = {});
Array cosh(const Array& a, const On& on = {});
Array tanh(const Array& a, const On& on = {});
Array arcsin(const Array& a, const On& on = {});
Array arccos(const Array& a, const On& on = {});
Array arctan(const Array& a, const On& on = {});
Array arcsinh(const Array& a, const On& on = {});
Array arccosh(const Array& a, const On& on = {});
Array arctanh(const Array& a, const On& on = {});
// The angle of the point (b, a), from -pi to pi.
Array arctan2(const Term& a, const Term& b, const On& on = {});
Array erf(const Array& a, const On& on = {});
Array sigmoid(const Array& a, const On& on = {});
Array reciprocal(const Array& a, const On& on = {});
// Floats; integers stay as they are.
Array floor(const Array& a, const On& on = {});
Array ceil(const Array& a, const On& on = {});
Array round(const Array& a, const On& on = {});  // halves to even

// Comparisons and logic give bool.
Array equal(const Term& a, const Term& b, const On& on = {});
Array not_equal(const Term& a, const Term& b, const On& on = {});
Array less(const Term& a, const Term& b, const On& on = {});
Array less_equal(const Term& a, const Term& b, const On& on = {});
Array greater(const Term& a, const Term& b, const On& on = {});
Array greater_equal(const Term& a, const Term& b, const On& on = {});
Array logical_and(const Term& a, const Term& b, const On& on = {});
Array logical_or(const Term& a, const Term& b, const On& on = {});
Array logical_xor(const Term& a, const Term& b, const On& on = {});
Array logical_not(const Array& a, const On& on = {});
Array isnan(const Array& a, const On& on = {});
Array isfinite(const Array& a, const On& on = {});
Array isinf(const Array& a, const On& on = {});

// Integers and bool; UsageError where the promoted dtype is a float. Shifts take integers alone. A
// shift by a negative number, or by as many bits as the dtype has or more, gives zero, or -1 of a
// negative number that is shifted right.
Array bitwise_and(const Term& a, const Term& b, const On& on = {});
Array bitwise_or(const Term& a, const Term& b, const On& on = {});
Array bitwise_xor(const Term& a, const Term& b, const On& on = {});
Array bitwise_invert(const Array& a, const On& on = {});
Array left_shift(const Term& a, const Term& b, const On& on = {});
Array right_shift(const Term& a, const Term& b, const On& on = {});

// Takes a where the condition is not zero, and b elsewhere.
Array where(const Array& condition, const Term& a, const Term& b, const On& on = {});
// Converting an out-of-range float to an integer is undefined, as in C++; NaN becomes true.
Array astype(const Array& a, Dtype dtype, const On& on = {});

// Reductions; over all axes if none are given. Sums of bool, int8 and int16 are int32; sums of
// uint8 and uint16 are uint32; products likewise. Two-byte floats are summed in float32. Over no
// elements, sum is 0, prod 1, any false and all true; mean, var and std are NaN; max, min, argmax
// and argmin raise UsageError. If any element is NaN, max and min are NaN.
struct Reduce {
  std::vector<int64_t> axes{};
  bool keep_dims = false;
};
Array sum(const Array& a, const Reduce& how = {}, const On& on = {});
Array prod(const Array& a, const Reduce& how = {}, const On& on = {});
Array mean(const Array& a, const Reduce& how = {}, const On& on = {});
// Whether all elements, or any of them, are not zero, as bool. NaN is not zero.
Array all(const Array& a, const Reduce& how = {}, const On& on = {});
Array any(const Array& a, const Reduce& how = {}, const On& on = {});
// The mean of squared distances from the mean, with the number of elements less `ddof` as divisor;
// and its root. Infinite or NaN where that divisor is not positive.
Array var(const Array& a, const Reduce& how = {}, double ddof = 0, const On& on = {});
Array std(const Array& a, const Reduce& how = {}, double ddof = 0, const On& on = {});
Array max(const Array& a, const Reduce& how = {}, const On& on = {});
Array min(const Array& a, const Reduce& how = {}, const On& on = {});
// The position of the largest element, as uint32: the first one if several are largest, the first
// NaN if there is one. Without an axis, the position in the flattened array.
Array argmax(const Array& a, std::optional<int64_t> axis = {}, bool keep_dims = false,
             const On& on = {});
// The same of the smallest element.
Array argmin(const Array& a, std::optional<int64_t> axis = {}, bool keep_dims = false,
             const On& on = {});

// exp(a - max) / sum, over one axis, computed in float32 (in float64 for float64).
Array softmax(const Array& a, int64_t axis = -1, const On& on = {});

// Matrix product over the last two axes, leading ones broadcast; 1-d arguments as in NumPy. Floats
// only; two-byte floats accumulate in float32.
Array matmul(const Array& a, const Array& b, const On& on = {});

// Multiplies x[..., K] by 4-bit weights, packed in w: uint32[N, K/8] with the first value in the
// lowest bits. Weight (n, k) is scales[n, k / group] * q + biases[n, k / group]. If `transpose` is
// false, w is [K, N/8], grouped along N. The result's dtype is promote(x, promote(scales, biases)):
// float16 x with float32 scales gives float32.
struct Quantization {
  int64_t group_size = 64;  // 32, 64 or 128
  int64_t bits = 4;
  bool transpose = true;
};
Array quantized_matmul(const Array& x, const Array& w, const Array& scales, const Array& biases,
                       const Quantization& how = {}, const On& on = {});
// Quantizes an array[N, K] of floats into the {w, scales, biases} that quantized_matmul takes. Each
// weight comes back within half a step of its group: (max - min) / 15 / 2.
std::vector<Array> quantize(const Array& array, const Quantization& how = {}, const On& on = {});

Array concatenate(std::span<const Array> arrays, int64_t axis = 0, const On& on = {});
Array concatenate(std::initializer_list<Array> arrays, int64_t axis = 0, const On& on = {});
Array stack(std::span<const Array> arrays, int64_t axis = 0, const On& on = {});
// Moves elements along an axis by `shift` places; those that leave at the end come in at the start.
// Without an axis, moves them in the flattened array. The second one does several axes, each by its
// own number of places.
Array roll(const Array& a, int64_t shift, std::optional<int64_t> axis = {}, const On& on = {});
Array roll(const Array& a, std::span<const int64_t> shifts, std::span<const int64_t> axes,
           const On& on = {});
// The whole array so many times along each axis. Repetitions and axes meet at the last one: the
// shorter of both gets ones before it.
Array tile(const Array& a, std::span<const int64_t> repetitions, const On& on = {});
Array tile(const Array& a, std::initializer_list<int64_t> repetitions, const On& on = {});
// Each element so many times, one after the other. Without an axis, of the flattened array.
Array repeat(const Array& a, int64_t repetitions, std::optional<int64_t> axis = {},
             const On& on = {});
// Products of all elements of a (rows) with all of b (columns).
Array outer(const Array& a, const Array& b, const On& on = {});
// Differences of neighbours along an axis, n times over. Of bool: whether they differ.
Array diff(const Array& a, int64_t n = 1, int64_t axis = -1, const On& on = {});

// Picks elements along `axis` at integer positions; the shape of `indices` takes the place of the
// axis. Negative positions count from the end. Positions out of range give zero (NaN for floats).
// Without an axis, picks from the flattened array.
Array take(const Array& a, const Array& indices, std::optional<int64_t> axis = {},
           const On& on = {});
// The same with one position for each element of the result: indices has a's shape except along
// `axis`.
Array take_along_axis(const Array& a, const Array& indices, int64_t axis, const On& on = {});

// How an update changes the element at its position.
enum class Update : uint8_t { set, add, multiply, max, min };
// The counterpart of take(): the array with elements along `axis` updated at integer positions.
// Updates are broadcast to the shape of take(a, indices, axis) and converted to a's dtype. They
// apply as if one after another, in the order of `indices`: if several set one element, the last
// one stays. Positions out of range change nothing. The update happens in the array's own memory if
// nobody else can see it once this runs (drop the array, or move it in here), and in a copy
// otherwise.
Array scatter(Array a, const Array& indices, const Array& updates, int64_t axis = 0,
              Update how = Update::set, const On& on = {});
// The same with one position for each update: indices has a's shape except along `axis`.
Array scatter_along_axis(Array a, const Array& indices, const Array& updates, int64_t axis,
                         Update how = Update::set, const On& on = {});

inline Array operator+(const Term& a, const Term& b) { return add(a, b); }
inline Array operator-(const Term& a, const Term& b) { return subtract(a, b); }
inline Array operator*(const Term& a, const Term& b) { return multiply(a, b); }
inline Array operator/(const Term& a, const Term& b) { return divide(a, b); }
inline Array operator%(const Term& a, const Term& b) { return remainder(a, b); }
inline Array operator-(const Array& a) { return negative(a); }
inline Array operator!(const Array& a) { return logical_not(a); }
inline Array operator&(const Term& a, const Term& b) { return bitwise_and(a, b); }
inline Array operator|(const Term& a, const Term& b) { return bitwise_or(a, b); }
inline Array operator^(const Term& a, const Term& b) { return bitwise_xor(a, b); }
inline Array operator~(const Array& a) { return bitwise_invert(a); }
inline Array operator<(const Term& a, const Term& b) { return less(a, b); }
inline Array operator<=(const Term& a, const Term& b) { return less_equal(a, b); }
inline Array operator>(const Term& a, const Term& b) { return greater(a, b); }
inline Array operator>=(const Term& a, const Term& b) { return greater_equal(a, b); }
inline Array operator==(const Term& a, const Term& b) { return equal(a, b); }
inline Array operator!=(const Term& a, const Term& b) { return not_equal(a, b); }

}  // namespace holdfast

#pragma GCC visibility pop
