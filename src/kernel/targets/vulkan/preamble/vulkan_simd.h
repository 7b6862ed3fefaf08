// Barriers, and operations of a simdgroup: 32 threads, fewer at the end of a threadgroup. Words go
// through threadgroup memory, so that all threads of the group must come to each operation.

hf_pure unsigned hf_spirv_local_index();
hf_pure unsigned hf_spirv_group_threads();

namespace metal {

hf_inline void threadgroup_barrier(mem_flags = mem_flags::mem_threadgroup) { hf_spirv_barrier(); }
hf_inline void simdgroup_barrier(mem_flags = mem_flags::mem_threadgroup) {
  hf_spirv_uniform();
  hf_spirv_barrier();
}

}  // namespace metal

hf_inline unsigned hf_lane() { return hf_spirv_local_index() % 32; }
hf_inline unsigned hf_lane_count() {
  const unsigned rest = hf_spirv_group_threads() - (hf_spirv_local_index() & ~31u);
  return rest < 32 ? rest : 32;
}
// One word of each thread of the largest group.
hf_inline unsigned* hf_exchange() {
  hf_tg_local unsigned words[1024];
  return words;
}
hf_inline unsigned hf_word_of(unsigned word, unsigned lane) {
  const unsigned i = hf_spirv_local_index();
  unsigned* const words = hf_exchange();
  hf_spirv_uniform();
  words[i] = word;
  hf_spirv_barrier();
  word = words[(i & ~31u) + lane % 32];
  hf_spirv_barrier();
  return word;
}

// The lane's value, word by word, so that every type can move.
template <class T>
hf_inline T hf_value_of(const T& value, unsigned lane) {
  constexpr unsigned words = (sizeof(T) + 3) / 4;
  unsigned bits[words] = {};
  __builtin_memcpy(bits, &value, sizeof(T));
  for (unsigned i = 0; i < words; ++i) bits[i] = hf_word_of(bits[i], lane);
  T result;
  __builtin_memcpy(&result, bits, sizeof(T));
  return result;
}

template <class T>
hf_inline unsigned hf_bits_of(const T& value) {
  unsigned bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
hf_inline T hf_of_bits(unsigned bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

// All lanes get the same, joined in the order of the halves of a whole simdgroup, else lane by lane.
template <class T, class F>
hf_inline T hf_reduced(T a, F of) {
  if constexpr (sizeof(T) <= 4) {
    // Once they are there, every thread reads the words of all.
    const unsigned i = hf_spirv_local_index();
    const unsigned first = i & ~31u;
    const unsigned count = hf_lane_count();
    unsigned* const words = hf_exchange();
    hf_spirv_uniform();
    words[i] = hf_bits_of(a);
    hf_spirv_barrier();
    a = hf_of_bits<T>(words[first]);
    for (unsigned k = 1; k < count; ++k) a = of(a, hf_of_bits<T>(words[first + k]));
    hf_spirv_barrier();
    return a;
  } else {
    const T own = a;
    a = hf_value_of(own, 0);
    for (unsigned k = 1; k < 32; ++k) {
      const T b = hf_value_of(own, k);
      if (k < hf_lane_count()) a = of(a, b);
    }
    return a;
  }
}
// Of this lane and those before it, or of those before it.
template <bool kWithOwn, class T, class F>
hf_inline T hf_prefix_of(T own, T first, F of) {
  T a = first;
  for (unsigned k = 0; k < 32; ++k) {
    const T b = hf_value_of(own, k);
    if (k < hf_lane() || (kWithOwn && k == hf_lane())) a = of(a, b);
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
#define hf_shuffle(name, from)                                                        \
  template <class V>                                                                  \
  hf_inline hf_value<V> name(const V& value, unsigned by) {                           \
    const unsigned lane = hf_lane();                                                  \
    const unsigned wanted = from;                                                     \
    return hf_value_of<hf_value<V>>(value, wanted < hf_lane_count() ? wanted : lane); \
  }

namespace metal {

template <class V>
hf_inline hf_value<V> simd_broadcast_first(const V& value) {
  return hf_value_of<hf_value<V>>(value, 0);
}
hf_inline simd_vote simd_ballot(bool value) {
  return {hf_reduced<unsigned>(unsigned(value) << hf_lane(),
                               [](unsigned a, unsigned b) { return a | b; })};
}
hf_inline bool simd_any(bool value) {
  return hf_reduced<unsigned>(value, [](unsigned a, unsigned b) { return a | b; }) != 0;
}
hf_inline bool simd_all(bool value) {
  return hf_reduced<unsigned>(value, [](unsigned a, unsigned b) { return a & b; }) != 0;
}
hf_inline bool simd_is_first() { return hf_lane() == 0; }

}  // namespace metal
