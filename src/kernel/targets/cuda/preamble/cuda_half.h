// Two-byte floats, which NVRTC has only in headers of its toolkit. Each operation rounds to nearest
// even. Beside an integer a half stays one; beside another float the result is that, or float.

template <class T>
inline constexpr bool hf_is_number = hf_width<T> == 0 && requires(T v) { static_cast<float>(v); };
template <class T>
inline constexpr bool hf_is_integer = requires(T v) { v % v; };

struct hf_half {
  unsigned short hf_bits;

  hf_half() = default;
  template <class T>
    requires(!hf_same<T, double> && hf_is_number<T>)
  constexpr hf_half(T v) : hf_bits(hf_round(static_cast<float>(v))) {}
  constexpr hf_half(double v) : hf_bits(hf_round(v)) {}
  // By itself it becomes another float: `c ? x : 0` must not find a way from a half to an int.
  template <class T>
    requires(hf_same<T, float> || hf_same<T, double>)
  constexpr operator T() const {
    if (!__builtin_is_constant_evaluated()) {
      float result;
      asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(hf_bits));
      return static_cast<T>(result);
    }
    const unsigned sign = (hf_bits & 0x8000u) << 16;
    const unsigned exponent = (hf_bits >> 10) & 31u;
    const unsigned mantissa = hf_bits & 0x3ffu;
    if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) {
      return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | mantissa << 13);
    }
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  template <class T>
    requires(!hf_same<T, float> && !hf_same<T, double> && !hf_same<T, hf_half> &&
             hf_width<T> == 0 &&
             requires(float v) { static_cast<T>(v); })
  explicit constexpr operator T() const {
    return static_cast<T>(static_cast<float>(*this));
  }

  template <class T>
  constexpr hf_half& operator+=(T v) {
    return *this = hf_half(*this + v);
  }
  template <class T>
  constexpr hf_half& operator-=(T v) {
    return *this = hf_half(*this - v);
  }
  template <class T>
  constexpr hf_half& operator*=(T v) {
    return *this = hf_half(*this * v);
  }
  template <class T>
  constexpr hf_half& operator/=(T v) {
    return *this = hf_half(*this / v);
  }
  constexpr hf_half& operator++() { return *this = *this + hf_of(0x3c00u); }
  constexpr hf_half& operator--() { return *this = *this - hf_of(0x3c00u); }
  constexpr hf_half operator++(int) {
    const hf_half old = *this;
    ++*this;
    return old;
  }
  constexpr hf_half operator--(int) {
    const hf_half old = *this;
    --*this;
    return old;
  }
  constexpr hf_half operator+() const { return *this; }
  constexpr hf_half operator-() const { return hf_of(hf_bits ^ 0x8000u); }

#define hf_half_operator(op, instruction)                                            \
  friend constexpr hf_half operator op(hf_half a, hf_half b) {                       \
    if (__builtin_is_constant_evaluated()) {                                         \
      return hf_half(static_cast<float>(a) op static_cast<float>(b));                \
    }                                                                                \
    unsigned short result;                                                           \
    asm(instruction " %0, %1, %2;" : "=h"(result) : "h"(a.hf_bits), "h"(b.hf_bits)); \
    return hf_of(result);                                                            \
  }
  // clang-format off
  hf_half_operator(+, "add.rn.f16") hf_half_operator(-, "sub.rn.f16")
  hf_half_operator(*, "mul.rn.f16");
  // clang-format on
#undef hf_half_operator
  friend constexpr hf_half operator/(hf_half a, hf_half b) {
    return hf_half(static_cast<float>(a) / static_cast<float>(b));
  }

  static constexpr hf_half hf_of(unsigned bits) {
    hf_half result{};
    result.hf_bits = static_cast<unsigned short>(bits);
    return result;
  }
  static constexpr unsigned short hf_round(float v) {
    if (!__builtin_is_constant_evaluated()) {
      unsigned short result;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(v));
      return result;
    }
    const unsigned word = __builtin_bit_cast(unsigned, v);
    const unsigned sign = (word >> 16) & 0x8000u;
    const unsigned magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned short>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
      // Adding this rounds to the last place of a subnormal.
      const float rounded = __builtin_bit_cast(float, magnitude) + 0.5f;
      const unsigned place = __builtin_bit_cast(unsigned, rounded) - 0x3f000000u;
      return static_cast<unsigned short>(sign | place);
    }
    const unsigned odd = (magnitude >> 13) & 1u;
    return static_cast<unsigned short>(sign | ((magnitude + 0xc8000fffu + odd) >> 13));
  }
  static constexpr unsigned short hf_round(double v) {
    if (__builtin_is_constant_evaluated()) return hf_round(static_cast<float>(v));
    unsigned short result;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(result) : "d"(v));
    return result;
  }
};

template <class T>
using hf_beside_half =
    typename hf_if<hf_is_integer<T>, hf_half,
                   typename hf_if<hf_same<T, double>, double, float>::type>::type;
// A bfloat brings its own operators.
template <class T>
inline constexpr bool hf_is_beside_half =
    !hf_same<T, hf_half> && !hf_same<T, hf_bfloat> && hf_is_number<T>;

// What a half is compared with: a half is a float then, a double stays one.
template <class T>
using hf_compared = typename hf_if<hf_same<T, double>, double, float>::type;
#define hf_half_comparison(op)                                                       \
  template <class A, class B>                                                        \
    requires(hf_same<A, hf_half> && (hf_same<B, hf_half> || hf_is_beside_half<B>))   \
  hf_inline constexpr bool operator op(A a, B b) {                                   \
    return static_cast<float>(a) op static_cast<hf_compared<B>>(b);                                               \
  }                                                                                  \
  template <class A, class B>                                                        \
    requires(hf_is_beside_half<A> && hf_same<B, hf_half>)                            \
  hf_inline constexpr bool operator op(A a, B b) {                                   \
    return static_cast<hf_compared<A>>(a) op static_cast<float>(b);                                               \
  }
// clang-format off
hf_half_comparison(==) hf_half_comparison(!=) hf_half_comparison(<) hf_half_comparison(<=)
hf_half_comparison(>) hf_half_comparison(>=);
// clang-format on
#undef hf_half_comparison

// Of a half and another number, which is not converted to a half first.
#define hf_half_operator(op)                                                       \
  template <class A, class B>                                                      \
    requires(hf_same<A, hf_half> && hf_is_beside_half<B>)                          \
  hf_inline constexpr hf_beside_half<B> operator op(A a, B b) {                    \
    return static_cast<hf_beside_half<B>>(a) op static_cast<hf_beside_half<B>>(b); \
  }                                                                                \
  template <class A, class B>                                                      \
    requires(hf_is_beside_half<A> && hf_same<B, hf_half>)                          \
  hf_inline constexpr hf_beside_half<A> operator op(A a, B b) {                    \
    return static_cast<hf_beside_half<A>>(a) op static_cast<hf_beside_half<A>>(b); \
  }
// clang-format off
hf_half_operator(+) hf_half_operator(-) hf_half_operator(*) hf_half_operator(/);
// clang-format on
#undef hf_half_operator

constexpr hf_half operator""h(long double v) { return hf_half(static_cast<double>(v)); }
