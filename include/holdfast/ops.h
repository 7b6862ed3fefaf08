#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

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

// Operations, each a kernel in our own language. Inputs are broadcast; results have the dtype that
// promote() gives, with scalars adapting to arrays: see Term. Layouts do not matter. Floats of two
// bytes are computed in float32.

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
Array logical_not(const Array& a, const On& on = {});
Array isnan(const Array& a, const On& on = {});

// Where the condition is not zero, a; elsewhere b.
Array where(const Array& condition, const Term& a, const Term& b, const On& on = {});
// Out-of-range floats to integers are undefined, as in C++; NaN to bool is true.
Array astype(const Array& a, Dtype dtype, const On& on = {});

// Reductions. Empty axes: all of them. Sums of bool, int8 and int16 are int32, of uint8 and uint16
// uint32; two-byte floats are summed in float32. Over no elements: sum 0; max, min, argmax raise
// UsageError; mean NaN. max and min of something with a NaN are NaN.
struct Reduce {
  std::vector<int64_t> axes{};
  bool keep_dims = false;
};
Array sum(const Array& a, const Reduce& how = {}, const On& on = {});
Array mean(const Array& a, const Reduce& how = {}, const On& on = {});
Array max(const Array& a, const Reduce& how = {}, const On& on = {});
Array min(const Array& a, const Reduce& how = {}, const On& on = {});
// uint32; the first where several are largest, the first NaN where there is one. No axis: of the
// flattened array.
Array argmax(const Array& a, std::optional<int64_t> axis = {}, bool keep_dims = false,
             const On& on = {});

// exp(a - max) / sum, over one axis, in float32 (float64 for that).
Array softmax(const Array& a, int64_t axis = -1, const On& on = {});

// Matrix product over the last two axes, leading ones broadcast; 1-d arguments as in NumPy. Floats
// only; two-byte floats accumulate in float32.
Array matmul(const Array& a, const Array& b, const On& on = {});

// x[..., K] with 4-bit weights w uint32[N, K/8], the first value in the lowest bits; weight (n, k)
// is scales[n, k / group] * q + biases[n, k / group]. `transpose` false: w is [K, N/8], grouped
// along N. The result has promote(x, promote(scales, biases)); so float16 x with float32 scales
// gives float32.
struct Quantization {
  int64_t group_size = 64;  // 32, 64 or 128
  int64_t bits = 4;
  bool transpose = true;
};
Array quantized_matmul(const Array& x, const Array& w, const Array& scales, const Array& biases,
                       const Quantization& how = {}, const On& on = {});
// What quantized_matmul takes: {w, scales, biases} of an array[N, K] of floats. Each weight comes
// back within half a step, (max - min) / 15 / 2 of its group.
std::vector<Array> quantize(const Array& array, const Quantization& how = {}, const On& on = {});

Array concatenate(std::span<const Array> arrays, int64_t axis = 0, const On& on = {});
Array concatenate(std::initializer_list<Array> arrays, int64_t axis = 0, const On& on = {});
Array stack(std::span<const Array> arrays, int64_t axis = 0, const On& on = {});

// Elements of `axis` at integer positions of any shape, which takes the axis' place; negative ones
// count from the end. Positions outside give zero (NaN for floats). No axis: of the flattened
// array.
Array take(const Array& a, const Array& indices, std::optional<int64_t> axis = {},
           const On& on = {});
// The same, one position for each element of the result: indices has a's shape but for `axis`.
Array take_along_axis(const Array& a, const Array& indices, int64_t axis, const On& on = {});

// What an update does to the element that it meets.
enum class Update : uint8_t { set, add, multiply, max, min };
// take()'s counterpart: the array with elements of `axis`, at integer positions of any shape,
// updated. Updates are broadcast to the shape that take(a, indices, axis) has, and converted to a's
// dtype. They happen as if one after another, in the order of their positions: of several for one
// element, the last is what set leaves. Positions outside change nothing. In the array's own memory
// where nobody else can see it once this runs (drop the array, or move it in here), in a copy
// otherwise.
Array scatter(Array a, const Array& indices, const Array& updates, int64_t axis = 0,
              Update how = Update::set, const On& on = {});
// The same, one position for each update: indices has a's shape but for `axis`.
Array scatter_along_axis(Array a, const Array& indices, const Array& updates, int64_t axis,
                         Update how = Update::set, const On& on = {});

inline Array operator+(const Term& a, const Term& b) { return add(a, b); }
inline Array operator-(const Term& a, const Term& b) { return subtract(a, b); }
inline Array operator*(const Term& a, const Term& b) { return multiply(a, b); }
inline Array operator/(const Term& a, const Term& b) { return divide(a, b); }
inline Array operator%(const Term& a, const Term& b) { return remainder(a, b); }
inline Array operator-(const Array& a) { return negative(a); }
inline Array operator!(const Array& a) { return logical_not(a); }
inline Array operator<(const Term& a, const Term& b) { return less(a, b); }
inline Array operator<=(const Term& a, const Term& b) { return less_equal(a, b); }
inline Array operator>(const Term& a, const Term& b) { return greater(a, b); }
inline Array operator>=(const Term& a, const Term& b) { return greater_equal(a, b); }
inline Array operator==(const Term& a, const Term& b) { return equal(a, b); }
inline Array operator!=(const Term& a, const Term& b) { return not_equal(a, b); }

}  // namespace holdfast

#pragma GCC visibility pop
