// The operations of a simdgroup, of what a target defines before: hf_reduce(name, of) joins the
// values a and b of two lanes; hf_prefix(name, with_own, first, of) those of the lanes before this
// one; hf_shuffle(name, from) takes the value of the lane `from`, a function of `lane` and `by`.

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

}  // namespace metal
