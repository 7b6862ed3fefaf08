// Barriers, and operations of a simdgroup where it is a subgroup of the device: 32 threads, fewer
// at the end of a threadgroup. The translator leads all threads of the threadgroup to each hf_meet;
// those on another way move words there and do not count. Nothing that meets stands in a branch
// that threads take apart.

hf_pure unsigned hf_spirv_local_index();
// The lanes that come here on this way and say yes, one bit each.
hf_meet unsigned hf_spirv_ballot(unsigned yes);
// What the lane gives here; the lane exists.
hf_meet unsigned hf_spirv_word_from(unsigned word, unsigned lane);
// Whether all simdgroups of the threadgroup are known to be whole and here: the same for all.
hf_meet unsigned hf_spirv_whole();
hf_meet void hf_spirv_simd_barrier();

namespace metal {

hf_inline void threadgroup_barrier(mem_flags = mem_flags::mem_threadgroup) { hf_spirv_barrier(); }
hf_inline void simdgroup_barrier(mem_flags = mem_flags::mem_threadgroup) {
  hf_spirv_simd_barrier();
}

}  // namespace metal

hf_inline unsigned hf_lane() { return hf_spirv_local_index() % 32; }
hf_inline unsigned hf_lanes() { return hf_spirv_ballot(1); }
// Of bits, one at least of which is set.
hf_inline unsigned hf_lowest(unsigned bits) { return unsigned(__builtin_ctz(bits)); }
hf_inline unsigned hf_highest(unsigned bits) { return 31u - unsigned(__builtin_clz(bits)); }

// The lane's value, word by word, so that every type can move.
template <class T>
hf_inline T hf_value_of(const T& value, unsigned lane) {
  constexpr unsigned words = (sizeof(T) + 3) / 4;
  unsigned bits[words] = {};
  __builtin_memcpy(bits, &value, sizeof(T));
#pragma unroll
  for (unsigned i = 0; i < words; ++i) bits[i] = hf_spirv_word_from(bits[i], lane);
  T result;
  __builtin_memcpy(&result, bits, sizeof(T));
  return result;
}

// All lanes get the same: in whole simdgroups by halves. Else each lane joins what is of itself and
// the next ones that are here with what the lane behind these has, until the first one has all.
template <class T, class F>
hf_inline T hf_reduced(T a, F of) {
  const unsigned lane = hf_lane();
  if (hf_spirv_whole() != 0) {
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) {
      a = of(a, hf_value_of(a, lane ^ distance));
    }
    return a;
  }
  const unsigned lanes = hf_lanes();
  const unsigned behind = lanes & (~1u << lane);
  // Its own lane: there is none.
  unsigned next = behind != 0 ? hf_lowest(behind) : lane;
#pragma unroll
  for (unsigned step = 0; step < 5; ++step) {
    const T b = hf_value_of(a, next);
    const unsigned after = hf_spirv_word_from(next, next);
    a = next != lane ? of(a, b) : a;
    next = after != next ? after : lane;
  }
  return hf_value_of(a, lanes != 0 ? hf_lowest(lanes) : lane);
}
// Of this lane and those before it, or of those before it.
template <bool kWithOwn, class T, class F>
hf_inline T hf_prefix_of(T a, T first, F of) {
  const unsigned lane = hf_lane();
  const unsigned before = hf_lanes() & ((1u << lane) - 1);
  // Its own lane: there is none.
  unsigned last = before != 0 ? hf_highest(before) : lane;
  if constexpr (!kWithOwn) {
    const T b = hf_value_of(a, last);
    a = last != lane ? b : first;
  }
#pragma unroll
  for (unsigned step = 0; step < 5; ++step) {
    const T b = hf_value_of(a, last);
    const unsigned further = hf_spirv_word_from(last, last);
    a = last != lane ? of(b, a) : a;
    last = further != last ? further : lane;
  }
  return a;
}

#define hf_reduce(name, of)                                                    \
  template <class V>                                                           \
  hf_inline hf_value<V> name(const V& value) {                                 \
    using T = hf_value<V>;                                                     \
    return hf_reduced<T>(value, [](const T& a, const T& b) { return T(of); }); \
  }
#define hf_prefix(name, with_own, first, of)                                        \
  template <class V>                                                                \
  hf_inline hf_value<V> name(const V& value) {                                      \
    using T = hf_value<V>;                                                          \
    return hf_prefix_of<with_own, T>(value, T(first),                               \
                                     [](const T& a, const T& b) { return T(of); }); \
  }
#define hf_shuffle(name, from)                                     \
  template <class V>                                               \
  hf_inline hf_value<V> name(const V& value, unsigned by) {        \
    const unsigned lane = hf_lane();                               \
    const unsigned wanted = from;                                  \
    const unsigned asked = hf_lanes() >> (wanted & 31u) & 1u;      \
    const bool there = (wanted < 32) & (asked != 0);               \
    return hf_value_of<hf_value<V>>(value, there ? wanted : lane); \
  }

namespace metal {

template <class V>
hf_inline hf_value<V> simd_broadcast_first(const V& value) {
  const unsigned lanes = hf_lanes();
  return hf_value_of<hf_value<V>>(value, lanes != 0 ? hf_lowest(lanes) : hf_lane());
}
hf_inline simd_vote simd_ballot(bool value) { return {hf_spirv_ballot(value)}; }
hf_inline bool simd_any(bool value) { return hf_spirv_ballot(value) != 0; }
hf_inline bool simd_all(bool value) { return hf_spirv_ballot(!value) == 0; }
hf_inline bool simd_is_first() {
  return (hf_lanes() & ((1u << hf_lane()) - 1)) == 0;
}

}  // namespace metal
