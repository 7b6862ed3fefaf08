// Operations of a quadgroup: four lanes of a simdgroup, side by side. A lane that is not there, or
// not in the same flow, does not count; who asks for its value gets its own.

namespace metal {

// clang-format off
hf_shuffle(quad_shuffle, (lane & ~3u) | (by & 3u)) hf_shuffle(quad_broadcast, (lane & ~3u) | (by & 3u))
hf_shuffle(quad_shuffle_down, (lane & 3u) + by < 4 ? lane + by : lane)
hf_shuffle(quad_shuffle_up, (lane & 3u) >= by ? lane - by : lane)
hf_shuffle(quad_shuffle_xor, (lane & ~3u) | ((lane ^ by) & 3u))
hf_shuffle(quad_shuffle_rotate_down, (lane & ~3u) | ((lane + by) & 3u))
hf_shuffle(quad_shuffle_rotate_up, (lane & ~3u) | ((lane - by) & 3u));
// clang-format on

template <class V>
hf_inline hf_value<V> quad_shuffle_and_fill_down(const V& value, const V& filling, unsigned by,
                                                 unsigned modulo = 4 hf_takes_line) {
  return simd_shuffle_and_fill_down(value, filling, by, modulo hf_with_line);
}
template <class V>
hf_inline hf_value<V> quad_shuffle_and_fill_up(const V& value, const V& filling, unsigned by,
                                               unsigned modulo = 4 hf_takes_line) {
  return simd_shuffle_and_fill_up(value, filling, by, modulo hf_with_line);
}

}  // namespace metal

// Which of the quadgroup's four lanes are there, and say so.
hf_inline unsigned hf_quad_lanes(bool value hf_takes_line) {
  const simd_vote::vote_t lanes = static_cast<simd_vote::vote_t>(simd_ballot(value hf_with_line));
  return static_cast<unsigned>(lanes >> (hf_own_lane & ~3u)) & 15u;
}
// Joins the values of lanes, in order, as far as they are among `wanted`; `first` where none is.
template <class T, class F>
hf_inline T hf_quad_joined(const T& value, unsigned wanted, T first, F of hf_takes_line) {
  const unsigned lanes = hf_quad_lanes(true hf_with_line) & wanted;
  T a = first;
  bool any = false;
  for (unsigned k = 0; k < 4; ++k) {
    const T b = quad_shuffle(value, k hf_with_line);
    if ((lanes >> k & 1u) == 0) continue;
    a = any ? of(a, b) : b;
    any = true;
  }
  return a;
}

namespace metal {

#define hf_quad_reduce(name, of)                                                              \
  template <class V>                                                                          \
  hf_inline hf_value<V> name(const V& value hf_takes_line) {                              \
    using T = hf_value<V>;                                                                    \
    return hf_quad_joined<T>(                                                                 \
        value, 15u, value, [](const T& a, const T& b) { return T(of); } hf_with_line);             \
  }
#define hf_quad_prefix(name, own, first, of)                                                  \
  template <class V>                                                                          \
  hf_inline hf_value<V> name(const V& value hf_takes_line) {                              \
    using T = hf_value<V>;                                                                    \
    const unsigned before = (1u << ((hf_own_lane & 3u) + own)) - 1;                           \
    return hf_quad_joined<T>(                                                                 \
        value, before, T(first), [](const T& a, const T& b) { return T(of); } hf_with_line);       \
  }
// clang-format off
hf_quad_reduce(quad_sum, a + b) hf_quad_reduce(quad_product, a * b)
hf_quad_reduce(quad_max, metal::max(a, b)) hf_quad_reduce(quad_min, metal::min(a, b))
hf_quad_reduce(quad_and, a & b) hf_quad_reduce(quad_or, a | b) hf_quad_reduce(quad_xor, a ^ b)
hf_quad_prefix(quad_prefix_exclusive_sum, 0, 0, a + b)
hf_quad_prefix(quad_prefix_inclusive_sum, 1, 0, a + b)
hf_quad_prefix(quad_prefix_exclusive_product, 0, 1, a * b)
hf_quad_prefix(quad_prefix_inclusive_product, 1, 1, a * b)
// clang-format on
#undef hf_quad_reduce
#undef hf_quad_prefix

hf_inline bool quad_any(bool value hf_takes_line) {
  return hf_quad_lanes(value hf_with_line) != 0;
}
hf_inline bool quad_all(bool value hf_takes_line) {
  return hf_quad_lanes(!value hf_with_line) == 0;
}
struct quad_vote {
  typedef unsigned long vote_t;
  vote_t hf_lanes_of;
  explicit operator vote_t() const { return hf_lanes_of; }
  bool any() const { return hf_lanes_of != 0; }
};
hf_inline quad_vote quad_ballot(bool value hf_takes_line) {
  return {hf_quad_lanes(value hf_with_line)};
}
hf_inline bool quad_is_first(hf_takes_line_alone) {
  const unsigned lanes = hf_quad_lanes(true hf_with_line);
  return (lanes & ((1u << (hf_own_lane & 3u)) - 1)) == 0;
}
template <class V>
hf_inline hf_value<V> quad_broadcast_first(const V& value hf_takes_line) {
  const unsigned lanes = hf_quad_lanes(true hf_with_line);
  const unsigned first = (lanes & 1u) != 0 ? 0 : (lanes & 2u) != 0 ? 1 : (lanes & 4u) != 0 ? 2 : 3;
  return quad_shuffle(value, first hf_with_line);
}

}  // namespace metal
