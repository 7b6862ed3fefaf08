// The upper half of a float, rounded to nearest even.
#define hf_has_bfloat

struct hf_bfloat {
  unsigned short hf_bits;

  hf_bfloat() = default;
  template <class T>
    requires(hf_width<T> == 0 && requires(T v) { static_cast<float>(v); })
  constexpr hf_bfloat(T v) : hf_bits(hf_round(static_cast<float>(v))) {}
  constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<unsigned>(hf_bits) << 16);
  }

  template <class T>
  constexpr hf_bfloat& operator+=(T v) { return *this = hf_bfloat(float(*this) + float(v)); }
  template <class T>
  constexpr hf_bfloat& operator-=(T v) { return *this = hf_bfloat(float(*this) - float(v)); }
  template <class T>
  constexpr hf_bfloat& operator*=(T v) { return *this = hf_bfloat(float(*this) * float(v)); }
  template <class T>
  constexpr hf_bfloat& operator/=(T v) { return *this = hf_bfloat(float(*this) / float(v)); }

  static constexpr unsigned short hf_round(float v) {
    const unsigned bits = __builtin_bit_cast(unsigned, v);
    const unsigned rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    // A NaN stays one: the upper bits alone could be those of an infinity.
    return static_cast<unsigned short>((bits & 0x7fffffffU) > 0x7f800000U ? (bits >> 16) | 0x40U
                                                                          : rounded);
  }
};

namespace metal {
typedef hf_bfloat bfloat;
typedef hf_bfloat bfloat16_t;
}  // namespace metal
