// Vectors that are aligned as their elements: three take the room of three. What is computed with
// them is a vector.

#ifdef hf_has_swizzles
#define hf_packed_members(N, ...)       \
  union {                               \
    struct {                            \
      T __VA_ARGS__;                    \
    };                                  \
    hf_swizzles_##N                     \
  };                                    \
  hf_packed(const hf_packed&) = default; \
  hf_inline constexpr hf_packed& operator=(const hf_packed& hf_v) { \
    __builtin_memcpy(this, &hf_v, sizeof(*this)); \
    return *this; \
  }
#else
#define hf_packed_members(N, ...) T __VA_ARGS__;
#endif

template <class T, int N>
struct hf_packed;
template <class T, int N>
inline constexpr int hf_width<hf_packed<T, N>> = N;
template <class T, int N>
struct hf_type<hf_packed<T, N>> {
  using value = hf_vec<T, N>;
  using element = T;
};
template <class T>
inline constexpr bool hf_is_packed = false;
template <class T, int N>
inline constexpr bool hf_is_packed<hf_packed<T, N>> = true;

#define hf_packed_own(c) c(hf_from.c)
#define hf_packed_of(N, ...)                                                                \
  template <class T>                                                                        \
  struct hf_packed<T, N> {                                                                  \
    hf_packed_members(N, __VA_ARGS__)                                                       \
    hf_packed() = default;                                                                  \
    hf_inline constexpr hf_packed(const hf_vec<T, N>& hf_from) : hf_each_##N(hf_packed_own) {} \
    template <class A>                                                                      \
      requires(hf_width<A> == 0 && hf_is_element<A, T>)                                     \
    hf_inline constexpr hf_packed(const A& hf_v) : hf_packed(hf_vec<T, N>(hf_v)) {}         \
    template <class V>                                                                      \
      requires(hf_width<V> == N && !hf_same<V, hf_packed> && !hf_same<V, hf_vec<T, N>>)     \
    hf_inline explicit constexpr hf_packed(const V& hf_v)                                   \
        : hf_packed(hf_vec<T, N>(hf_value<V>(hf_v))) {}                                     \
    template <class A, class B, class... R>                                                 \
    hf_inline constexpr hf_packed(const A& hf_a, const B& hf_b, const R&... hf_r)           \
        : hf_packed(hf_vec<T, N>(hf_a, hf_b, hf_r...)) {}                                   \
    hf_inline constexpr operator hf_vec<T, N>() const { return hf_vec<T, N>(__VA_ARGS__); } \
    hf_inline T& operator[](long hf_i) { return reinterpret_cast<T*>(this)[hf_i]; }         \
    hf_inline const T& operator[](long hf_i) const {                                        \
      return reinterpret_cast<const T*>(this)[hf_i];                                        \
    }                                                                                       \
  };
hf_packed_of(2, x, y)
hf_packed_of(3, x, y, z)
hf_packed_of(4, x, y, z, w)

template <class T>
hf_inline constexpr hf_value<T> hf_unpacked(const T& v) {
  return v;
}
#define hf_packed_operator(op)                                              \
  template <class A, class B>                                               \
    requires(hf_is_packed<A> || hf_is_packed<B>)                            \
  hf_inline constexpr auto operator op(const A& a, const B& b) {            \
    return hf_unpacked(a) op hf_unpacked(b);                                \
  }
hf_packed_operator(+) hf_packed_operator(-) hf_packed_operator(*) hf_packed_operator(/)
hf_packed_operator(%) hf_packed_operator(&) hf_packed_operator(|) hf_packed_operator(^)
hf_packed_operator(<<) hf_packed_operator(>>) hf_packed_operator(==) hf_packed_operator(!=)
hf_packed_operator(<) hf_packed_operator(<=) hf_packed_operator(>) hf_packed_operator(>=)
#undef hf_packed_operator
#define hf_packed_operator(op)                                              \
  template <class A, class B>                                               \
    requires(hf_is_packed<A>)                                               \
  hf_inline constexpr A& operator op##=(A& a, const B& b) {                 \
    return a = A(hf_value<A>(hf_unpacked(a) op hf_unpacked(b)));            \
  }
hf_packed_operator(+) hf_packed_operator(-) hf_packed_operator(*) hf_packed_operator(/)
#undef hf_packed_operator
template <class A>
  requires(hf_is_packed<A>)
hf_inline constexpr hf_value<A> operator-(const A& a) {
  return -hf_unpacked(a);
}

#define hf_packed_names(name, T)      \
  typedef hf_packed<T, 2> packed_##name##2; \
  typedef hf_packed<T, 3> packed_##name##3; \
  typedef hf_packed<T, 4> packed_##name##4;

namespace metal {

hf_packed_names(float, float) hf_packed_names(half, half) hf_packed_names(int, int)
hf_packed_names(uint, uint) hf_packed_names(short, short) hf_packed_names(ushort, ushort)
hf_packed_names(char, signed char) hf_packed_names(uchar, uchar) hf_packed_names(long, long)
hf_packed_names(ulong, ulong) hf_packed_names(bfloat, hf_bfloat)

}  // namespace metal
