// Barriers, and operations of a simdgroup: 32 threads, fewer at the end of a threadgroup. A thread
// that is not there does not count; who asks for its value gets its own.

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
  unsigned char (*slots)[16];
  unsigned count;
  unsigned lane;
  hf_inline T operator[](unsigned i) const {
    T value;
    __builtin_memcpy(&value, slots[i], sizeof(T));
    return value;
  }
  hf_inline T of(unsigned i) const { return (*this)[i < count ? i : lane]; }
};
template <class T>
inline hf_lanes<T> hf_exchange(T value, unsigned line) {
  static_assert(sizeof(T) <= 16, "simdgroup operations take values of at most 16 bytes");
  hf_host* const host = hf_this_host;
  const unsigned lane = host->item % 32;
  const unsigned rest = host->items - (host->item - lane);
  unsigned char(*const slots)[16] = host->slots[*host->parity];
  *host->parity ^= 1;
  __builtin_memcpy(slots[lane], &value, sizeof(T));
  host->simd_barrier(host, line);
  return {slots, rest < 32 ? rest : 32, lane};
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
    T a = all[0];                                                               \
    for (unsigned i = 1; i < all.count; ++i) {                                  \
      const T b = all[i];                                                       \
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
    for (unsigned i = 0; i < all.lane + with_own; ++i) {                        \
      const T b = all[i];                                                       \
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
  return hf_exchange<hf_value<V>>(value, line)[0];
}
// Whether all lanes have the value that is wanted.
inline bool hf_each(bool value, bool wanted, unsigned line) {
  const hf_lanes<bool> all = hf_exchange<bool>(value, line);
  bool each = true;
  for (unsigned i = 0; i < all.count; ++i) each = each && all[i] == wanted;
  return each;
}
inline bool simd_all(bool value, unsigned line = __builtin_LINE()) {
  return hf_each(value, true, line);
}
inline bool simd_any(bool value, unsigned line = __builtin_LINE()) {
  return !hf_each(value, false, line);
}
inline simd_vote simd_ballot(bool value, unsigned line = __builtin_LINE()) {
  const hf_lanes<bool> all = hf_exchange<bool>(value, line);
  simd_vote vote{0};
  for (unsigned i = 0; i < all.count; ++i) {
    vote.hf_lanes_of |= static_cast<unsigned long>(all[i]) << i;
  }
  return vote;
}
inline bool simd_is_first() { return hf_this_host->item % 32 == 0; }

}  // namespace metal
