// Functions of numbers and of vectors, element by element. Half and bfloat compute in float;
// integers where a function has none for them become float.

// The floating type of a function's result.
template <class T>
struct hf_floating {
  using type = float;
};
template <>
struct hf_floating<double> {
  using type = double;
};
template <>
struct hf_floating<_Float16> {
  using type = _Float16;
};
template <>
struct hf_floating<hf_bfloat> {
  using type = hf_bfloat;
};
template <class T, int N>
struct hf_floating<hf_vec<T, N>> {
  using type = hf_vec<typename hf_floating<T>::type, N>;
};
template <class V, int N, int... I>
struct hf_floating<hf_swizzle<V, N, I...>> : hf_floating<V> {};
template <class T>
using hf_fp = typename hf_floating<T>::type;

// The type in which two operands meet. A bfloat stays one beside an integer.
template <class A, class B>
struct hf_meeting {
  using type = decltype(A() + B());
};
template <class A>
struct hf_meeting<A, A> {
  using type = A;
};
#define hf_meets(B, R)                 \
  template <>                          \
  struct hf_meeting<hf_bfloat, B> {    \
    using type = R;                    \
  };                                   \
  template <>                          \
  struct hf_meeting<B, hf_bfloat> {    \
    using type = R;                    \
  };
hf_meets(int, hf_bfloat) hf_meets(unsigned, hf_bfloat) hf_meets(_Float16, float)
template <class A, class B>
using hf_pick_element = typename hf_meeting<hf_element<A>, hf_element<B>>::type;
template <class A, class B, int N = hf_width<A> + hf_width<B>>
struct hf_picked {
  // A vector decides over a scalar.
  using type =
      typename hf_if<(hf_width<A> > 0), hf_type<A>, hf_type<B>>::type::value;
};
template <class A, class B>
struct hf_picked<A, B, 0> {
  using type = hf_pick_element<A, B>;
};
template <class A, class B>
using hf_pick = typename hf_picked<A, B>::type;

template <class T>
hf_inline constexpr auto hf_part(const T& v, int i) {
  if constexpr (hf_width<T> == 0) {
    return v;
  } else {
    return v[i];
  }
}
template <class R, class F>
hf_inline constexpr R hf_build(F f) {
  if constexpr (hf_width<R> == 2) {
    return R(f(0), f(1));
  } else if constexpr (hf_width<R> == 3) {
    return R(f(0), f(1), f(2));
  } else {
    return R(f(0), f(1), f(2), f(3));
  }
}
// The result of a test: bool, or a vector of them.
template <class T, int N = hf_width<T>>
struct hf_tested {
  using type = hf_vec<bool, N>;
};
template <class T>
struct hf_tested<T, 0> {
  using type = bool;
};
template <class T>
using hf_truth = typename hf_tested<T>::type;

// Of v, a float or (the second expression) a double.
#define hf_function1(name, of_float, of_double)                                \
  template <class T>                                                           \
  hf_inline hf_fp<T> name(const T& hf_a) {                                     \
    if constexpr (hf_width<T> > 0) {                                           \
      return hf_build<hf_fp<T>>([&](int i) { return metal::name(hf_a[i]); });  \
    } else if constexpr (hf_same<T, double>) {                                 \
      const double v = hf_a;                                                   \
      return of_double;                                                        \
    } else {                                                                   \
      const float v = static_cast<float>(hf_a);                                \
      return static_cast<hf_fp<T>>(of_float);                                  \
    }                                                                          \
  }
#define hf_builtin1(name) hf_function1(name, __builtin_##name##f(v), __builtin_##name(v))

// Of v and u.
#define hf_function2(name, of_float, of_double)                                      \
  template <class A, class B>                                                        \
  hf_inline hf_fp<hf_pick<A, B>> name(const A& hf_a, const B& hf_b) {                \
    using R = hf_fp<hf_pick<A, B>>;                                                  \
    if constexpr (hf_width<R> > 0) {                                                 \
      return hf_build<R>(                                                            \
          [&](int i) { return metal::name(hf_part(hf_a, i), hf_part(hf_b, i)); });   \
    } else if constexpr (hf_same<R, double>) {                                       \
      const double v = static_cast<double>(hf_a);                                    \
      const double u = static_cast<double>(hf_b);                                    \
      return of_double;                                                              \
    } else {                                                                         \
      const float v = static_cast<float>(hf_a);                                      \
      const float u = static_cast<float>(hf_b);                                      \
      return static_cast<R>(of_float);                                               \
    }                                                                                \
  }
#define hf_builtin2(name) hf_function2(name, __builtin_##name##f(v, u), __builtin_##name(v, u))

#define hf_test1(name, test)                                                         \
  template <class T>                                                                 \
  hf_inline hf_truth<T> name(const T& hf_a) {                                        \
    if constexpr (hf_width<T> > 0) {                                                 \
      return hf_build<hf_truth<T>>([&](int i) { return metal::name(hf_a[i]); });     \
    } else {                                                                         \
      const hf_fp<T> hf_v = hf_a;                                                    \
      const auto v = hf_if_double(hf_v);                                             \
      return test;                                                                   \
    }                                                                                \
  }
template <class T>
hf_inline auto hf_if_double(T v) {
  if constexpr (hf_same<T, double>) {
    return v;
  } else {
    return static_cast<float>(v);
  }
}
hf_inline float hf_fract(float v) {
  const float part = v - __builtin_floorf(v);
  return part < 1.0f ? part : 0x1.fffffep-1f;
}

namespace metal {

hf_builtin1(exp) hf_builtin1(exp2) hf_builtin1(expm1)
hf_builtin1(log) hf_builtin1(log2) hf_builtin1(log10) hf_builtin1(log1p)
hf_builtin1(sqrt) hf_builtin1(cbrt) hf_builtin1(erf) hf_builtin1(erfc)
hf_builtin1(sin) hf_builtin1(cos) hf_builtin1(tan)
hf_builtin1(sinh) hf_builtin1(cosh) hf_builtin1(tanh)
hf_builtin1(asin) hf_builtin1(acos) hf_builtin1(atan)
hf_builtin1(asinh) hf_builtin1(acosh) hf_builtin1(atanh)
hf_builtin1(floor) hf_builtin1(ceil) hf_builtin1(round) hf_builtin1(rint) hf_builtin1(trunc)
hf_builtin1(fabs)
hf_function1(exp10, __builtin_powf(10.0f, v), __builtin_pow(10.0, v))
#ifdef __CUDACC__
hf_function1(rsqrt, ::rsqrtf(v), ::rsqrt(v))
#else
hf_function1(rsqrt, 1.0f / __builtin_sqrtf(v), 1.0 / __builtin_sqrt(v))
#endif
hf_function1(sinpi, __builtin_sinf(v * 3.14159265358979323846f),
             __builtin_sin(v * 3.14159265358979323846))
hf_function1(cospi, __builtin_cosf(v * 3.14159265358979323846f),
             __builtin_cos(v * 3.14159265358979323846))
// Below 1 also where the difference rounds to it.
hf_function1(fract, hf_fract(v), v - __builtin_floor(v))
hf_function1(saturate, v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f, v > 0 ? (v < 1 ? v : 1) : 0)

hf_builtin2(atan2) hf_builtin2(pow) hf_builtin2(fmod) hf_builtin2(copysign) hf_builtin2(fdim)
hf_function2(powr, __builtin_powf(v, u), __builtin_pow(v, u))
// The other, where one is not a number.
hf_function2(fmin, u < v || v != v ? u : v, u < v || v != v ? u : v)
hf_function2(fmax, v < u || v != v ? u : v, v < u || v != v ? u : v)
hf_function2(step, u < v ? 0.0f : 1.0f, u < v ? 0.0 : 1.0)
hf_function2(fdivide, v / u, v / u)
hf_function2(divide, v / u, v / u)
hf_function2(ldexp, __builtin_ldexpf(v, static_cast<int>(u)),
             __builtin_ldexp(v, static_cast<int>(u)))

hf_test1(isnan, __builtin_isnan(v))
hf_test1(isinf, __builtin_isinf(v) != 0)
hf_test1(isfinite, __builtin_isfinite(v))
hf_test1(isnormal, __builtin_isnormal(v))
hf_test1(signbit, __builtin_signbit(v) != 0)

}  // namespace metal
