// Vectors of two to four elements, laid out as Metal's: three take the room of four. The generator
// defines hf_swizzles_N, the swizzles of N elements that the text uses, where it uses any.

#define hf_each_2(f) f(x), f(y)
#define hf_each_3(f) f(x), f(y), f(z)
#define hf_each_4(f) f(x), f(y), f(z), f(w)
#define hf_join_2(f, op) f(x) op f(y)
#define hf_join_3(f, op) f(x) op f(y) op f(z)
#define hf_join_4(f, op) f(x) op f(y) op f(z) op f(w)

#ifdef hf_has_swizzles
// What is written `v.xy`: lies over the elements of v.
template <class V, int N, int... I>
struct hf_swizzle {
  hf_element<V> hf_at[N];

  hf_inline constexpr operator V() const { return V(hf_at[I]...); }
  hf_inline constexpr hf_swizzle& operator=(V v) {
    int i = 0;
    ((hf_at[I] = v[i++]), ...);
    return *this;
  }
  hf_inline constexpr hf_swizzle& operator=(const hf_swizzle& v) { return *this = V(v); }
  hf_inline constexpr hf_element<V>& operator[](int i) {
    constexpr int at[] = {I...};
    return hf_at[at[i]];
  }
  hf_inline constexpr hf_element<V> operator[](int i) const {
    constexpr int at[] = {I...};
    return hf_at[at[i]];
  }
  hf_inline constexpr hf_swizzle& operator+=(V v) { return *this = V(*this) + v; }
  hf_inline constexpr hf_swizzle& operator-=(V v) { return *this = V(*this) - v; }
  hf_inline constexpr hf_swizzle& operator*=(V v) { return *this = V(*this) * v; }
  hf_inline constexpr hf_swizzle& operator/=(V v) { return *this = V(*this) / v; }

  hf_swizzle() = default;
  hf_swizzle(const hf_swizzle&) = default;
};
#define hf_members(N, ...)     \
  union {                      \
    struct {                   \
      T __VA_ARGS__;           \
    };                         \
    hf_swizzles_##N            \
  };                           \
  hf_vec(const hf_vec&) = default; \
  hf_inline constexpr hf_vec& operator=(const hf_vec& hf_v) { \
    __builtin_memcpy(this, &hf_v, sizeof(*this)); \
    return *this; \
  }
#else
#define hf_members(N, ...) T __VA_ARGS__;
#endif

#define hf_splat(c) c(static_cast<T>(hf_v))
#define hf_take(c) c(static_cast<T>(hf_##c))
#define hf_type_of(c) class hf_t_##c
#define hf_name(c) const hf_t_##c& hf_##c
#define hf_fits(c) hf_is_element<hf_t_##c, T>
#define hf_convert(c) T(hf_v.c)
#define hf_binary(N, op, f)                                                          \
  friend hf_inline constexpr hf_vec operator op(const hf_vec& hf_a, const hf_vec& hf_b) { \
    return hf_vec(hf_each_##N(f));                                                   \
  }                                                                                  \
  hf_inline constexpr hf_vec& operator op##=(const hf_vec& hf_v) { return *this = *this op hf_v; }
#define hf_compare(N, op, f)                                                                \
  friend hf_inline constexpr hf_vec<bool, N> operator op(const hf_vec& hf_a, const hf_vec& hf_b) { \
    return hf_vec<bool, N>(hf_each_##N(f));                                                 \
  }
#define hf_add(c) T(hf_a.c + hf_b.c)
#define hf_sub(c) T(hf_a.c - hf_b.c)
#define hf_mul(c) T(hf_a.c * hf_b.c)
#define hf_div(c) T(hf_a.c / hf_b.c)
#define hf_mod(c) T(hf_a.c % hf_b.c)
#define hf_and(c) T(hf_a.c & hf_b.c)
#define hf_or(c) T(hf_a.c | hf_b.c)
#define hf_xor(c) T(hf_a.c ^ hf_b.c)
#define hf_shl(c) T(hf_a.c << hf_b.c)
#define hf_shr(c) T(hf_a.c >> hf_b.c)
#define hf_eq(c) hf_a.c == hf_b.c
#define hf_ne(c) hf_a.c != hf_b.c
#define hf_lt(c) hf_a.c < hf_b.c
#define hf_le(c) hf_a.c <= hf_b.c
#define hf_gt(c) hf_a.c > hf_b.c
#define hf_ge(c) hf_a.c >= hf_b.c
#define hf_both(c) hf_a.c && hf_b.c
#define hf_either(c) hf_a.c || hf_b.c
#define hf_neg(c) T(-hf_v.c)
#define hf_flip(c) T(~hf_v.c)
#define hf_not(c) !hf_v.c

// Whether a vector of T can be made of the scalar: of any number, each of which is converted as by a
// cast. As parameters of type T they would be converted implicitly, and C++23 has no such way from
// float to half.
template <class A, class T>
inline constexpr bool hf_is_element =
    hf_width<A> == 0 && requires(const A& v) { static_cast<T>(v); };

#define hf_vector_of(N, ...)                                                                \
  template <class T>                                                                        \
  struct alignas(sizeof(T) * (N == 3 ? 4 : N)) hf_vec<T, N> {                               \
    hf_members(N, __VA_ARGS__)                                                              \
    hf_vec() = default;                                                                     \
    template <class A>                                                                      \
      requires(hf_is_element<A, T>)                                                         \
    hf_inline constexpr hf_vec(const A& hf_v) : hf_each_##N(hf_splat) {}                    \
    template <hf_each_##N(hf_type_of)>                                                      \
      requires(hf_join_##N(hf_fits, &&))                                                    \
    hf_inline constexpr hf_vec(hf_each_##N(hf_name)) : hf_each_##N(hf_take) {}              \
    template <class V>                                                                      \
      requires(hf_width<V> == N && !hf_same<hf_element<V>, T>)                              \
    hf_inline explicit constexpr hf_vec(const V& hf_from) {                                 \
      const hf_value<V> hf_v = hf_from;                                                     \
      *this = hf_vec(hf_each_##N(hf_convert));                                              \
    }                                                                                       \
    template <class A, class B, class... R>                                                 \
      requires(hf_width<A> + hf_width<B> + (hf_width<R> + ... + 0) > 0)                     \
    hf_inline constexpr hf_vec(const A& hf_a, const B& hf_b, const R&... hf_r) {            \
      int hf_i = 0;                                                                         \
      hf_put(hf_i, hf_a);                                                                   \
      hf_put(hf_i, hf_b);                                                                   \
      (hf_put(hf_i, hf_r), ...);                                                            \
    }                                                                                       \
    template <class A>                                                                      \
    hf_inline constexpr void hf_put(int& hf_i, const A& hf_v) {                             \
      if constexpr (hf_width<A> == 0) {                                                     \
        (*this)[hf_i++] = T(hf_v);                                                          \
      } else {                                                                              \
        for (int hf_j = 0; hf_j < hf_width<A>; ++hf_j) (*this)[hf_i++] = T(hf_v[hf_j]);     \
      }                                                                                     \
    }                                                                                       \
    hf_inline T& operator[](long hf_i) { return reinterpret_cast<T*>(this)[hf_i]; }         \
    hf_inline const T& operator[](long hf_i) const {                                        \
      return reinterpret_cast<const T*>(this)[hf_i];                                        \
    }                                                                                       \
    hf_binary(N, +, hf_add) hf_binary(N, -, hf_sub) hf_binary(N, *, hf_mul)                 \
    hf_binary(N, /, hf_div) hf_binary(N, %, hf_mod) hf_binary(N, &, hf_and)                 \
    hf_binary(N, |, hf_or) hf_binary(N, ^, hf_xor) hf_binary(N, <<, hf_shl)                 \
    hf_binary(N, >>, hf_shr)                                                                \
    hf_compare(N, ==, hf_eq) hf_compare(N, !=, hf_ne) hf_compare(N, <, hf_lt)               \
    hf_compare(N, <=, hf_le) hf_compare(N, >, hf_gt) hf_compare(N, >=, hf_ge)               \
    hf_compare(N, &&, hf_both) hf_compare(N, ||, hf_either)                                 \
    friend hf_inline constexpr hf_vec operator+(const hf_vec& hf_v) { return hf_v; }        \
    friend hf_inline constexpr hf_vec operator-(const hf_vec& hf_v) {                       \
      return hf_vec(hf_each_##N(hf_neg));                                                   \
    }                                                                                       \
    friend hf_inline constexpr hf_vec operator~(const hf_vec& hf_v) {                       \
      return hf_vec(hf_each_##N(hf_flip));                                                  \
    }                                                                                       \
    friend hf_inline constexpr hf_vec<bool, N> operator!(const hf_vec& hf_v) {              \
      return hf_vec<bool, N>(hf_each_##N(hf_not));                                          \
    }                                                                                       \
  };
hf_vector_of(2, x, y)
hf_vector_of(3, x, y, z)
hf_vector_of(4, x, y, z, w)

#define hf_vector_names(name, T) \
  typedef hf_vec<T, 2> name##2;  \
  typedef hf_vec<T, 3> name##3;  \
  typedef hf_vec<T, 4> name##4;

namespace metal {

template <class T, int N>
using vec = hf_vec<T, N>;
hf_vector_names(float, float) hf_vector_names(half, half) hf_vector_names(double, double)
hf_vector_names(int, int) hf_vector_names(uint, uint) hf_vector_names(short, short)
hf_vector_names(ushort, ushort) hf_vector_names(char, signed char) hf_vector_names(uchar, uchar)
hf_vector_names(long, long) hf_vector_names(ulong, ulong) hf_vector_names(bool, bool)
hf_vector_names(bfloat, hf_bfloat)

}  // namespace metal
