// The upper half of a float, rounded to nearest even, as is each operation. Beside an integer a
// bfloat stays one; beside another float the result is that, or float.
#define hf_has_bfloat

struct hf_bfloat {
  unsigned short hf_bits;

  hf_bfloat() = default;
  template <class T>
    requires(hf_width<T> == 0 && requires(T v) { static_cast<float>(v); })
  constexpr hf_bfloat(T v) : hf_bits(hf_round(static_cast<float>(v))) {}
  // By itself it becomes a float alone: `c ? x : 0` must not find a way from a bfloat to an int.
  template <class T>
    requires(hf_same<T, float>)
  constexpr operator T() const {
    return __builtin_bit_cast(float, static_cast<unsigned>(hf_bits) << 16);
  }
  template <class T>
    requires(!hf_same<T, float> && !hf_same<T, hf_bfloat> && hf_width<T> == 0 &&
             requires(float v) { static_cast<T>(v); })
  explicit constexpr operator T() const {
    return static_cast<T>(static_cast<float>(*this));
  }

  template <class T>
  constexpr hf_bfloat& operator+=(T v) { return *this = hf_bfloat(float(*this) + float(v)); }
  template <class T>
  constexpr hf_bfloat& operator-=(T v) { return *this = hf_bfloat(float(*this) - float(v)); }
  template <class T>
  constexpr hf_bfloat& operator*=(T v) { return *this = hf_bfloat(float(*this) * float(v)); }
  template <class T>
  constexpr hf_bfloat& operator/=(T v) { return *this = hf_bfloat(float(*this) / float(v)); }

  constexpr hf_bfloat& operator++() { return *this += 1; }
  constexpr hf_bfloat& operator--() { return *this -= 1; }
  constexpr hf_bfloat operator++(int) {
    const hf_bfloat old = *this;
    ++*this;
    return old;
  }
  constexpr hf_bfloat operator--(int) {
    const hf_bfloat old = *this;
    --*this;
    return old;
  }
  constexpr hf_bfloat operator+() const { return *this; }
  constexpr hf_bfloat operator-() const { return hf_bfloat(-float(*this)); }

  static constexpr unsigned short hf_round(float v) {
    const unsigned bits = __builtin_bit_cast(unsigned, v);
    const unsigned rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    // A NaN stays one: the upper bits alone could be those of an infinity.
    return static_cast<unsigned short>((bits & 0x7fffffffU) > 0x7f800000U ? (bits >> 16) | 0x40U
                                                                          : rounded);
  }
};

// What a bfloat and a number compute in, and what they give.
template <class T>
using hf_in_bfloat = typename hf_if<hf_same<T, double>, double, float>::type;
template <class T>
inline constexpr bool hf_stays_bfloat = hf_same<T, hf_bfloat> || requires(T v) { v % v; };
template <class T>
using hf_beside_bfloat = typename hf_if<hf_stays_bfloat<T>, hf_bfloat, hf_in_bfloat<T>>::type;
template <class T>
inline constexpr bool hf_meets_bfloat =
    hf_width<T> == 0 && requires(T v) { static_cast<float>(v); };

#define hf_bfloat_operator(op, result)                                                     \
  template <class A, class B>                                                              \
    requires(hf_same<A, hf_bfloat> && hf_meets_bfloat<B>)                                  \
  hf_inline constexpr result(B) operator op(A a, B b) {                                    \
    return static_cast<result(B)>(static_cast<hf_in_bfloat<B>>(a)                          \
                                      op static_cast<hf_in_bfloat<B>>(b));                 \
  }                                                                                        \
  template <class A, class B>                                                              \
    requires(!hf_same<A, hf_bfloat> && hf_same<B, hf_bfloat> && hf_meets_bfloat<A>)        \
  hf_inline constexpr result(A) operator op(A a, B b) {                                    \
    return static_cast<result(A)>(static_cast<hf_in_bfloat<A>>(a)                          \
                                      op static_cast<hf_in_bfloat<A>>(b));                 \
  }
#define hf_number_of(T) hf_beside_bfloat<T>
#define hf_truth_of(T) bool
hf_bfloat_operator(+, hf_number_of) hf_bfloat_operator(-, hf_number_of)
hf_bfloat_operator(*, hf_number_of) hf_bfloat_operator(/, hf_number_of)
hf_bfloat_operator(==, hf_truth_of) hf_bfloat_operator(!=, hf_truth_of)
hf_bfloat_operator(<, hf_truth_of) hf_bfloat_operator(<=, hf_truth_of)
hf_bfloat_operator(>, hf_truth_of) hf_bfloat_operator(>=, hf_truth_of)
#undef hf_bfloat_operator
#define hf_bfloat_operator(op)                                                             \
  template <class A, class B>                                                              \
    requires(!__is_class(A) && hf_same<B, hf_bfloat> && hf_meets_bfloat<A>)                \
  hf_inline constexpr A& operator op##=(A& a, B b) {                                       \
    return a = static_cast<A>(static_cast<hf_in_bfloat<A>>(a)                              \
                                  op static_cast<hf_in_bfloat<A>>(b));                     \
  }
hf_bfloat_operator(+) hf_bfloat_operator(-) hf_bfloat_operator(*) hf_bfloat_operator(/)
#undef hf_bfloat_operator

// `0.5bf`, as the generator writes it.
#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wliteral-suffix"
#pragma GCC diagnostic ignored "-Wuser-defined-literals"
#endif
constexpr hf_bfloat operator""ms(long double v) { return hf_bfloat(static_cast<float>(v)); }
#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

namespace metal {
typedef hf_bfloat bfloat;
typedef hf_bfloat bfloat16_t;
}  // namespace metal
