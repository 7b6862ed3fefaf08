// The operations of a simdgroup, of what a target defines before: hf_reduce(name, of) joins the
// values a and b of two lanes; hf_prefix(name, with_own, first, of) those of the lanes before this
// one; hf_shuffle(name, from) takes the value of the lane `from`, a function of `lane` and `by`.
// hf_own_lane is this lane; where operations take the author's line, hf_takes_line does so
// behind others, hf_takes_line_alone by itself, and hf_with_line hands it on.
#ifndef hf_own_lane
#define hf_own_lane hf_lane()
#endif
#ifndef hf_with_line
#define hf_takes_line_alone
#define hf_takes_line
#define hf_with_line
#endif

namespace metal {

// clang-format off
hf_reduce(simd_sum, a + b) hf_reduce(simd_product, a * b)
hf_reduce(simd_max, metal::max(a, b)) hf_reduce(simd_min, metal::min(a, b))
hf_reduce(simd_and, a & b) hf_reduce(simd_or, a | b) hf_reduce(simd_xor, a ^ b)
hf_prefix(simd_prefix_exclusive_sum, false, 0, a + b)
hf_prefix(simd_prefix_inclusive_sum, true, 0, a + b)
hf_prefix(simd_prefix_exclusive_product, false, 1, a * b)
hf_prefix(simd_prefix_inclusive_product, true, 1, a * b)
hf_shuffle(simd_shuffle, by) hf_shuffle(simd_broadcast, by)
hf_shuffle(simd_shuffle_down, lane + by) hf_shuffle(simd_shuffle_up, lane - by)
hf_shuffle(simd_shuffle_xor, lane ^ by)
hf_shuffle(simd_shuffle_rotate_down, (lane + by) % 32)
hf_shuffle(simd_shuffle_rotate_up, (lane - by) % 32);
// clang-format on

// Of parts of `modulo` lanes: where a part has no lane so far away, the value is that of `filling`,
// from the part's other end.
template <class V>
hf_inline hf_value<V> simd_shuffle_and_fill_down(const V& value, const V& filling, unsigned by,
                                                 unsigned modulo = 32 hf_takes_line) {
  const unsigned lane = hf_own_lane;
  const unsigned from = (lane & ~(modulo - 1)) + ((lane + by) & (modulo - 1));
  const hf_value<V> near = simd_shuffle(value, from hf_with_line);
  const hf_value<V> far = simd_shuffle(filling, from hf_with_line);
  return (lane & (modulo - 1)) + by < modulo ? near : far;
}
template <class V>
hf_inline hf_value<V> simd_shuffle_and_fill_up(const V& value, const V& filling, unsigned by,
                                               unsigned modulo = 32 hf_takes_line) {
  const unsigned lane = hf_own_lane;
  const unsigned from = (lane & ~(modulo - 1)) + ((lane - by) & (modulo - 1));
  const hf_value<V> near = simd_shuffle(value, from hf_with_line);
  const hf_value<V> far = simd_shuffle(filling, from hf_with_line);
  return (lane & (modulo - 1)) >= by ? near : far;
}

}  // namespace metal
