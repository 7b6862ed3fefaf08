// Barriers, and operations of a simdgroup: 32 threads, fewer at the end of a threadgroup. A thread
// that is not there, or not in the same flow, does not count; who asks for its value gets its own.

namespace metal {

hf_inline void threadgroup_barrier(mem_flags = mem_flags::mem_threadgroup,
                                   unsigned line = __builtin_LINE()) {
  hf_this_host->barrier(hf_this_host, line);
}
hf_inline void simdgroup_barrier(mem_flags = mem_flags::mem_threadgroup,
                                 unsigned line = __builtin_LINE()) {
  hf_this_host->simd_barrier(hf_this_host, line);
}

}  // namespace metal

template <class T>
struct hf_lanes {
  const unsigned char (*slots)[16];
  unsigned active;
  unsigned lane;
  hf_inline T operator[](unsigned i) const {
    T value;
    __builtin_memcpy(&value, slots[i], sizeof(T));
    return value;
  }
  hf_inline T of(unsigned i) const { return (*this)[i < 32 && (active >> i & 1u) != 0 ? i : lane]; }
  hf_inline unsigned first() const { return __builtin_ctz(active); }
};
template <class T>
inline hf_lanes<T> hf_exchange(T value, unsigned line) {
  static_assert(sizeof(T) <= 16, "simdgroup operations take values of at most 16 bytes");
  hf_host* const host = hf_this_host;
  const unsigned lane = host->item % 32;
  __builtin_memcpy(host->slots[lane], &value, sizeof(T));
  host->simd_barrier(host, line);
  return {host->met, host->active, lane};
}

#define hf_own_lane (hf_this_host->item % 32)
#define hf_takes_line_alone unsigned line = __builtin_LINE()
#define hf_takes_line , unsigned line = __builtin_LINE()
#define hf_with_line , line
#define hf_reduce(name, of)                                                     \
  template <class V>                                                            \
  inline hf_value<V> name(const V& value, unsigned line = __builtin_LINE()) {   \
    using T = hf_value<V>;                                                      \
    const hf_lanes<T> all = hf_exchange<T>(value, line);                        \
    T a = all[all.first()];                                                     \
    if (all.active == ~0u) {                                                    \
      for (unsigned i = 1; i < 32; ++i) {                                       \
        const T b = all[i];                                                     \
        a = T(of);                                                              \
      }                                                                         \
      return a;                                                                 \
    }                                                                           \
    for (unsigned i = all.active & (all.active - 1); i != 0; i &= i - 1) {      \
      const T b = all[__builtin_ctz(i)];                                        \
      a = T(of);                                                                \
    }                                                                           \
    return a;                                                                   \
  }
#define hf_prefix(name, with_own, first, of)                                    \
  template <class V>                                                            \
  inline hf_value<V> name(const V& value, unsigned line = __builtin_LINE()) {   \
    using T = hf_value<V>;                                                      \
    const hf_lanes<T> all = hf_exchange<T>(value, line);                        \
    T a = T(first);                                                             \
    const unsigned before = (with_own ? 2u << all.lane : 1u << all.lane) - 1;   \
    for (unsigned i = all.active & before; i != 0; i &= i - 1) {                \
      const T b = all[__builtin_ctz(i)];                                        \
      a = T(of);                                                                \
    }                                                                           \
    return a;                                                                   \
  }
#define hf_shuffle(name, from)                                                  \
  template <class V>                                                            \
  inline hf_value<V> name(const V& value, unsigned by, unsigned line = __builtin_LINE()) { \
    const hf_lanes<hf_value<V>> all = hf_exchange<hf_value<V>>(value, line);    \
    const unsigned lane = all.lane;                                             \
    return all.of(from);                                                        \
  }

namespace metal {

template <class V>
inline hf_value<V> simd_broadcast_first(const V& value, unsigned line = __builtin_LINE()) {
  const hf_lanes<hf_value<V>> all = hf_exchange<hf_value<V>>(value, line);
  return all[all.first()];
}
inline simd_vote simd_ballot(bool value, unsigned line = __builtin_LINE()) {
  const hf_lanes<bool> all = hf_exchange<bool>(value, line);
  simd_vote vote{0};
  for (unsigned i = all.active; i != 0; i &= i - 1) {
    const unsigned lane = __builtin_ctz(i);
    vote.hf_lanes_of |= static_cast<unsigned long>(all[lane]) << lane;
  }
  return vote;
}
inline bool simd_any(bool value, unsigned line = __builtin_LINE()) {
  return simd_ballot(value, line).any();
}
inline bool simd_all(bool value, unsigned line = __builtin_LINE()) {
  return !simd_ballot(!value, line).any();
}
inline bool simd_is_first(unsigned line = __builtin_LINE()) {
  const hf_lanes<bool> all = hf_exchange<bool>(true, line);
  return all.first() == all.lane;
}

}  // namespace metal
