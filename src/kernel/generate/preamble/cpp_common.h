// Functions of integers and floating numbers alike, and of vectors as a whole.

hf_inline unsigned long hf_reverse(unsigned long v) {
  v = (v >> 1 & 0x5555555555555555UL) | (v & 0x5555555555555555UL) << 1;
  v = (v >> 2 & 0x3333333333333333UL) | (v & 0x3333333333333333UL) << 2;
  v = (v >> 4 & 0x0f0f0f0f0f0f0f0fUL) | (v & 0x0f0f0f0f0f0f0f0fUL) << 4;
  return __builtin_bswap64(v);
}

namespace metal {

template <class A, class B>
hf_inline hf_pick<A, B> min(const A& a, const B& b) {
  using R = hf_pick<A, B>;
  if constexpr (hf_width<R> > 0) {
    return hf_build<R>([&](int i) { return metal::min(hf_part(a, i), hf_part(b, i)); });
  } else {
    const R v = static_cast<R>(a);
    const R u = static_cast<R>(b);
    return u < v || v != v ? u : v;
  }
}
template <class A, class B>
hf_inline hf_pick<A, B> max(const A& a, const B& b) {
  using R = hf_pick<A, B>;
  if constexpr (hf_width<R> > 0) {
    return hf_build<R>([&](int i) { return metal::max(hf_part(a, i), hf_part(b, i)); });
  } else {
    const R v = static_cast<R>(a);
    const R u = static_cast<R>(b);
    return v < u || v != v ? u : v;
  }
}
template <class A, class B, class C>
hf_inline auto min3(const A& a, const B& b, const C& c) {
  return metal::min(metal::min(a, b), c);
}
template <class A, class B, class C>
hf_inline auto max3(const A& a, const B& b, const C& c) {
  return metal::max(metal::max(a, b), c);
}
template <class A, class B, class C>
hf_inline auto clamp(const A& v, const B& low, const C& high) {
  return metal::min(metal::max(v, low), high);
}
template <class T>
hf_inline hf_value<T> abs(const T& v) {
  if constexpr (hf_width<T> > 0) {
    return hf_build<hf_value<T>>([&](int i) { return metal::abs(v[i]); });
  } else if constexpr (hf_same<T, float> || hf_same<T, _Float16> || hf_same<T, hf_bfloat>) {
    return static_cast<T>(__builtin_fabsf(static_cast<float>(v)));
  } else if constexpr (hf_same<T, double>) {
    return __builtin_fabs(v);
  } else {
    return v < T(0) ? static_cast<T>(-v) : v;
  }
}
template <class A, class B>
hf_inline auto absdiff(const A& a, const B& b) {
  return metal::max(a, b) - metal::min(a, b);
}
template <class T>
hf_inline hf_fp<T> sign(const T& v) {
  if constexpr (hf_width<T> > 0) {
    return hf_build<hf_fp<T>>([&](int i) { return metal::sign(v[i]); });
  } else {
    return v > T(0) ? hf_fp<T>(1.0f) : v < T(0) ? hf_fp<T>(-1.0f) : hf_fp<T>(v == v ? v : T(0));
  }
}
template <class A, class B, class C>
hf_inline hf_fp<hf_pick<hf_pick<A, B>, C>> fma(const A& a, const B& b, const C& c) {
  using R = hf_fp<hf_pick<hf_pick<A, B>, C>>;
  if constexpr (hf_width<R> > 0) {
    return hf_build<R>(
        [&](int i) { return metal::fma(hf_part(a, i), hf_part(b, i), hf_part(c, i)); });
  } else if constexpr (hf_same<R, double>) {
    return __builtin_fma(double(a), double(b), double(c));
  } else {
    return static_cast<R>(__builtin_fmaf(float(a), float(b), float(c)));
  }
}
template <class A, class B, class C>
hf_inline auto mix(const A& a, const B& b, const C& t) {
  using R = hf_fp<hf_pick<hf_pick<A, B>, C>>;
  const R from = static_cast<R>(a);
  return static_cast<R>(from + (static_cast<R>(b) - from) * static_cast<R>(t));
}
template <class A, class B, class C>
hf_inline auto smoothstep(const A& low, const B& high, const C& v) {
  using R = hf_fp<hf_pick<hf_pick<A, B>, C>>;
  const R from = static_cast<R>(low);
  const R way = static_cast<R>((static_cast<R>(v) - from) / (static_cast<R>(high) - from));
  const R t = metal::clamp(way, R(0.0f), R(1.0f));
  return static_cast<R>(t * t * (R(3.0f) - R(2.0f) * t));
}
// b where c, else a.
template <class A, class B, class C>
hf_inline hf_pick<A, B> select(const A& a, const B& b, const C& c) {
  using R = hf_pick<A, B>;
  if constexpr (hf_width<C> > 0) {
    return hf_build<R>([&](int i) { return c[i] ? hf_part(R(b), i) : hf_part(R(a), i); });
  } else {
    return c ? static_cast<R>(b) : static_cast<R>(a);
  }
}

#define hf_bits1(name, of)                                                           \
  template <class T>                                                                 \
  hf_inline hf_value<T> name(const T& v) {                                           \
    if constexpr (hf_width<T> > 0) {                                                 \
      return hf_build<hf_value<T>>([&](int i) { return metal::name(v[i]); });        \
    } else {                                                                         \
      constexpr int bits = sizeof(T) * 8;                                            \
      const unsigned long u = static_cast<unsigned long>(v) & (~0UL >> (64 - bits)); \
      return static_cast<T>(of);                                                     \
    }                                                                                \
  }
hf_bits1(popcount, __builtin_popcountl(u))
hf_bits1(clz, u == 0 ? bits : __builtin_clzl(u) - (64 - bits))
hf_bits1(ctz, u == 0 ? bits : __builtin_ctzl(u))
hf_bits1(reverse_bits, hf_reverse(u) >> (64 - bits))
// Of `bits` bits from `offset` on; a signed type's highest one is the sign.
template <class T>
hf_inline hf_value<T> extract_bits(const T& v, unsigned offset, unsigned bits) {
  if constexpr (hf_width<T> > 0) {
    return hf_build<hf_value<T>>([&](int i) { return metal::extract_bits(v[i], offset, bits); });
  } else {
    if (bits == 0) return T(0);
    const unsigned long u = static_cast<unsigned long>(v) << (64 - (offset + bits));
    if constexpr (T(-1) < T(0)) {
      return static_cast<T>(static_cast<long>(u) >> (64 - bits));
    } else {
      return static_cast<T>(u >> (64 - bits));
    }
  }
}
// `base` with `bits` bits from `offset` on replaced by the lowest ones of `insert`.
template <class T>
hf_inline hf_value<T> insert_bits(const T& base, const T& insert, unsigned offset, unsigned bits) {
  if constexpr (hf_width<T> > 0) {
    return hf_build<hf_value<T>>(
        [&](int i) { return metal::insert_bits(base[i], insert[i], offset, bits); });
  } else {
    if (bits == 0) return base;
    const unsigned long mask = (~0UL >> (64 - bits)) << offset;
    const unsigned long with = static_cast<unsigned long>(insert) << offset;
    return static_cast<T>((static_cast<unsigned long>(base) & ~mask) | (with & mask));
  }
}
template <class T, class N>
hf_inline T rotate(T v, N by) {
  constexpr unsigned bits = sizeof(T) * 8;
  const unsigned long u = static_cast<unsigned long>(v) & (~0UL >> (64 - bits));
  const unsigned n = static_cast<unsigned>(by) % bits;
  return static_cast<T>(n == 0 ? u : (u << n) | (u >> (bits - n)));
}
template <class T>
hf_inline T mulhi(T a, T b) {
  if constexpr (sizeof(T) == 8) {
#ifdef hf_has_no_int128
    const unsigned long low_a = unsigned(a), high_a = static_cast<unsigned long>(a) >> 32;
    const unsigned long low_b = unsigned(b), high_b = static_cast<unsigned long>(b) >> 32;
    const unsigned long inner = high_a * low_b + ((low_a * low_b) >> 32);
    const unsigned long outer = low_a * high_b + unsigned(inner);
    unsigned long high = high_a * high_b + (inner >> 32) + (outer >> 32);
    if constexpr (T(-1) < T(0)) {
      if (a < 0) high -= static_cast<unsigned long>(b);
      if (b < 0) high -= static_cast<unsigned long>(a);
    }
    return static_cast<T>(high);
#else
    using W = typename hf_if<(T(-1) < T(0)), __int128, unsigned __int128>::type;
    return static_cast<T>((static_cast<W>(a) * b) >> 64);
#endif
  } else {
    // Products of two uints can be larger than a long.
    using W = typename hf_if<(T(-1) < T(0)), long, unsigned long>::type;
    return static_cast<T>((static_cast<W>(a) * static_cast<W>(b)) >> (sizeof(T) * 8));
  }
}
template <class T>
hf_inline T mad24(T a, T b, T c) {
  return a * b + c;
}
template <class T>
hf_inline T mul24(T a, T b) {
  return a * b;
}

template <class T>
hf_inline hf_fp<T> sincos(const T& v, hf_fp<T>& cosine) {
  cosine = metal::cos(v);
  return metal::sin(v);
}
template <class T, class W>
hf_inline hf_fp<T> modf(const T& v, W& whole) {
  whole = metal::trunc(v);
  return metal::copysign(static_cast<hf_fp<T>>(v - whole), v);
}
hf_inline float frexp(float v, int& exponent) { return __builtin_frexpf(v, &exponent); }

template <class A, class B>
hf_inline hf_element<A> dot(const A& a, const B& b) {
  hf_element<A> sum = a[0] * b[0];
  for (int i = 1; i < hf_width<A>; ++i) sum += a[i] * b[i];
  return sum;
}
template <class T>
hf_inline auto length_squared(const T& v) {
  return metal::dot(v, v);
}
template <class T>
hf_inline auto length(const T& v) {
  return metal::sqrt(metal::dot(v, v));
}
template <class A, class B>
hf_inline auto distance_squared(const A& a, const B& b) {
  return metal::length_squared(hf_value<A>(a) - hf_value<B>(b));
}
template <class A, class B>
hf_inline auto distance(const A& a, const B& b) {
  return metal::length(hf_value<A>(a) - hf_value<B>(b));
}
template <class T>
hf_inline hf_value<T> normalize(const T& v) {
  return hf_value<T>(v) * hf_value<T>(metal::rsqrt(metal::dot(v, v)));
}
template <class A, class B>
hf_inline hf_value<A> cross(const A& a, const B& b) {
  return hf_value<A>(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                     a[0] * b[1] - a[1] * b[0]);
}
template <class A, class B>
hf_inline hf_value<A> reflect(const A& v, const B& n) {
  return hf_value<A>(v) - hf_value<A>(n) * hf_value<A>(2 * metal::dot(n, v));
}
template <class T>
hf_inline bool all(const T& v) {
  if constexpr (hf_width<T> == 0) {
    return v;
  } else {
    bool result = true;
    for (int i = 0; i < hf_width<T>; ++i) result = result && v[i];
    return result;
  }
}
template <class T>
hf_inline bool any(const T& v) {
  if constexpr (hf_width<T> == 0) {
    return v;
  } else {
    bool result = false;
    for (int i = 0; i < hf_width<T>; ++i) result = result || v[i];
    return result;
  }
}

}  // namespace metal
