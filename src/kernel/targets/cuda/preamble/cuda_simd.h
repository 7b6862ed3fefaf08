// Barriers, and operations of a simdgroup, which is a warp: 32 threads, fewer at the end of a
// threadgroup. A thread that is not there does not count; who asks for its value gets its own.

namespace metal {

hf_inline void threadgroup_barrier(mem_flags = mem_flags::mem_threadgroup) { __syncthreads(); }
hf_inline void simdgroup_barrier(mem_flags = mem_flags::mem_threadgroup) { __syncwarp(); }

}  // namespace metal

// Names all lanes; those that are not there do not count.
constexpr unsigned hf_whole = 0xffffffffu;
hf_inline unsigned hf_lanes() { return __ballot_sync(hf_whole, 1); }
hf_inline unsigned hf_lane() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// The value of another lane, which `of_word` finds, word by word, so that every type can move.
template <class T, class F>
hf_inline T hf_moved(const T& value, F of_word) {
  constexpr unsigned words = (sizeof(T) + 3) / 4;
  unsigned bits[words] = {};
  __builtin_memcpy(bits, &value, sizeof(T));
#pragma unroll
  for (unsigned i = 0; i < words; ++i) bits[i] = of_word(bits[i]);
  T result;
  __builtin_memcpy(&result, bits, sizeof(T));
  return result;
}
template <class T>
hf_inline T hf_value_of(const T& value, unsigned lane) {
  return hf_moved(value, [=](unsigned word) { return __shfl_sync(hf_whole, word, lane); });
}
// Of the lane whose number differs in the bits of `distance`. Needs no register for this lane's.
template <class T>
hf_inline T hf_value_across(const T& value, unsigned distance) {
  return hf_moved(value, [=](unsigned word) { return __shfl_xor_sync(hf_whole, word, distance); });
}

// All lanes get the same: in a whole simdgroup by halves, else lane by lane.
template <class T, class F>
hf_inline T hf_reduced(T a, F of) {
  unsigned lanes = hf_lanes();
  if (lanes == hf_whole) {
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) {
      a = of(a, hf_value_across(a, distance));
    }
    return a;
  }
  const T own = a;
  a = hf_value_of(own, __ffs(lanes) - 1);
  while ((lanes &= lanes - 1) != 0) a = of(a, hf_value_of(own, __ffs(lanes) - 1));
  return a;
}
// Of this lane and those before it, or of those before it.
template <bool kWithOwn, class T, class F>
hf_inline T hf_prefix_of(T own, T first, F of) {
  const unsigned lane = hf_lane();
  T a = own;
  if (hf_lanes() == hf_whole) {
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const T before = hf_value_of(a, lane - distance);
      if (lane >= distance) a = of(before, a);
    }
    if constexpr (!kWithOwn) {
      const T before = hf_value_of(a, lane - 1);
      a = lane == 0 ? first : before;
    }
    return a;
  }
  a = first;
  for (unsigned lanes = hf_lanes(); lanes != 0; lanes &= lanes - 1) {
    const unsigned other = __ffs(lanes) - 1;
    const T b = hf_value_of(own, other);
    if (other < lane || (kWithOwn && other == lane)) a = of(a, b);
  }
  return a;
}

#define hf_reduce(name, of)                                                    \
  template <class V>                                                           \
  hf_inline hf_value<V> name(const V& value) {                                 \
    using T = hf_value<V>;                                                     \
    return hf_reduced<T>(value, [](const T& a, const T& b) { return T(of); }); \
  }
#define hf_reduce_words(name, instruction, type)                            \
  hf_inline int name(int v) { return int(instruction(hf_whole, type(v))); } \
  hf_inline unsigned name(unsigned v) { return unsigned(instruction(hf_whole, v)); }
#define hf_prefix(name, with_own, first, of)                                        \
  template <class V>                                                                \
  hf_inline hf_value<V> name(const V& value) {                                      \
    using T = hf_value<V>;                                                          \
    return hf_prefix_of<with_own, T>(value, T(first),                               \
                                     [](const T& a, const T& b) { return T(of); }); \
  }
#define hf_shuffle(name, from)                                          \
  template <class V>                                                    \
  hf_inline hf_value<V> name(const V& value, unsigned by) {             \
    const unsigned lane = hf_lane();                                    \
    const unsigned wanted = from;                                       \
    /* All lanes ask who is there, without a branch around that. */     \
    const unsigned asked = hf_lanes() >> (wanted & 31u) & 1u;           \
    const bool there = (wanted < 32) & (asked != 0);                    \
    return hf_value_of<hf_value<V>>(value, there ? wanted : lane);      \
  }

namespace metal {

// clang-format off
#if __CUDA_ARCH__ >= 800
hf_reduce_words(simd_sum, __reduce_add_sync, int) hf_reduce_words(simd_max, __reduce_max_sync, int)
hf_reduce_words(simd_min, __reduce_min_sync, int)
hf_reduce_words(simd_and, __reduce_and_sync, unsigned)
hf_reduce_words(simd_or, __reduce_or_sync, unsigned)
hf_reduce_words(simd_xor, __reduce_xor_sync, unsigned)
#endif
// clang-format on

template <class V>
hf_inline hf_value<V> simd_broadcast_first(const V& value) {
  return hf_value_of<hf_value<V>>(value, __ffs(hf_lanes()) - 1);
}
hf_inline bool simd_all(bool value) { return __all_sync(hf_whole, value) != 0; }
hf_inline bool simd_any(bool value) { return __any_sync(hf_whole, value) != 0; }
hf_inline simd_vote simd_ballot(bool value) { return {__ballot_sync(hf_whole, value)}; }
hf_inline bool simd_is_first() { return hf_lane() == __ffs(hf_lanes()) - 1; }

}  // namespace metal
