namespace metal {

template <class T>
struct numeric_limits {
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T max() {
    if constexpr (hf_same<T, bool>) return true;
    return is_signed ? T((1UL << (sizeof(T) * 8 - 1)) - 1) : T(~0UL);
  }
  static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};

#define hf_limits(type, literal, biggest, smallest, step)            \
  template <>                                                        \
  struct numeric_limits<type> {                                      \
    static constexpr bool is_integer = false;                        \
    static constexpr bool is_signed = true;                          \
    static constexpr bool has_infinity = true;                       \
    static constexpr type max() { return literal(biggest); }         \
    static constexpr type lowest() { return literal(-biggest); }     \
    static constexpr type min() { return literal(smallest); }        \
    static constexpr type epsilon() { return literal(step); }        \
    static constexpr type infinity() { return literal(__builtin_inff()); } \
    static constexpr type quiet_NaN() { return literal(__builtin_nanf("")); } \
  };
hf_limits(float, float, 3.40282346638528859812e+38f, 1.17549435082228750797e-38f,
          1.1920928955078125e-07f)
hf_limits(double, double, 1.79769313486231570815e+308, 2.22507385850720138309e-308,
          2.22044604925031308085e-16)
hf_limits(half, half, 65504.0f, 6.103515625e-05f, 9.765625e-04f)
#ifdef hf_has_bfloat
hf_limits(bfloat, bfloat, 3.38953138925153547590e+38f, 1.17549435082228750797e-38f, 7.8125e-03f)
#endif

// As MLX's kernels have it: floats may be infinite.
template <class T>
struct Limits {
  using hf_of = numeric_limits<T>;
  static constexpr T hf_most() {
    if constexpr (hf_of::is_integer) {
      return hf_of::max();
    } else {
      return hf_of::infinity();
    }
  }
  static constexpr T hf_least() {
    if constexpr (hf_of::is_integer) {
      return hf_of::lowest();
    } else {
      return -hf_of::infinity();
    }
  }
  static constexpr T max = hf_most();
  static constexpr T min = hf_least();
  static constexpr T finite_max = hf_of::max();
  static constexpr T finite_min = hf_of::lowest();
};

}  // namespace metal
