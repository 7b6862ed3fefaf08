// Barriers, and operations of a simdgroup: 32 threads, fewer at the end of a threadgroup. Words go
// through threadgroup memory: all that take part publish one, read those of others, and conclude.
// The translator leads the other threads of the group there as well; they do not count, and who
// asks for the value of one gets its own.

hf_pure unsigned hf_spirv_local_index();
hf_meet void hf_spirv_publish(unsigned word);
hf_meet unsigned hf_spirv_word_of(unsigned lane);
hf_meet unsigned hf_spirv_is_there(unsigned lane);
hf_meet void hf_spirv_conclude();
hf_pure unsigned hf_spirv_group_threads();

namespace metal {

hf_inline void threadgroup_barrier(mem_flags = mem_flags::mem_threadgroup) { hf_spirv_barrier(); }
hf_inline void simdgroup_barrier(mem_flags = mem_flags::mem_threadgroup) {
  hf_spirv_publish(0);
  hf_spirv_conclude();
}

}  // namespace metal

hf_inline unsigned hf_lane() { return hf_spirv_local_index() % 32; }
// Threads that a simdgroup has, whether they take part or not.
hf_inline unsigned hf_lane_count() {
  const unsigned rest = hf_spirv_group_threads() - (hf_spirv_local_index() & ~31u);
  return rest < 32 ? rest : 32;
}
// While a word is published.
hf_inline bool hf_is_there(unsigned lane) {
  return lane < hf_lane_count() && hf_spirv_is_there(lane) != 0;
}

// The lane's value, word by word, so that every type can move.
template <class T>
hf_inline T hf_value_of(const T& value, unsigned lane) {
  constexpr unsigned words = (sizeof(T) + 3) / 4;
  unsigned bits[words] = {};
  __builtin_memcpy(bits, &value, sizeof(T));
  for (unsigned i = 0; i < words; ++i) {
    hf_spirv_publish(bits[i]);
    if (hf_is_there(lane)) bits[i] = hf_spirv_word_of(lane);
    hf_spirv_conclude();
  }
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

// Calls it with the lane and the value of each thread that takes part, in order.
template <class T, class F>
hf_inline void hf_each_lane(const T& own, F with) {
  if constexpr (sizeof(T) <= 4) {
    hf_spirv_publish(hf_bits_of(own));
    for (unsigned k = 0; k < 32; ++k) {
      if (hf_is_there(k)) with(k, hf_of_bits<T>(hf_spirv_word_of(k)));
    }
    hf_spirv_conclude();
  } else {
    for (unsigned k = 0; k < 32; ++k) {
      const T value = hf_value_of(own, k);
      hf_spirv_publish(0);
      const bool there = hf_is_there(k);
      hf_spirv_conclude();
      if (there) with(k, value);
    }
  }
}
template <class T, class F>
hf_inline T hf_reduced(T own, F of) {
  bool any = false;
  T a = own;
  hf_each_lane(own, [&](unsigned, const T& b) {
    a = any ? of(a, b) : b;
    any = true;
  });
  return a;
}
// Of this lane and those before it, or of those before it.
template <bool kWithOwn, class T, class F>
hf_inline T hf_prefix_of(T own, T first, F of) {
  T a = first;
  const unsigned lane = hf_lane();
  hf_each_lane(own, [&](unsigned k, const T& b) {
    if (k < lane || (kWithOwn && k == lane)) a = of(a, b);
  });
  return a;
}
hf_inline unsigned hf_first_lane() {
  unsigned first = 32;
  hf_each_lane(0u, [&](unsigned k, unsigned) { first = first < k ? first : k; });
  return first;
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
    return hf_value_of<hf_value<V>>(value, wanted);                                   \
  }

namespace metal {

template <class V>
hf_inline hf_value<V> simd_broadcast_first(const V& value) {
  return hf_value_of<hf_value<V>>(value, hf_first_lane());
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
hf_inline bool simd_is_first() { return hf_lane() == hf_first_lane(); }

}  // namespace metal
