// Barriers, and operations of a simdgroup: 32 threads, fewer at the end of a threadgroup. A thread
// that is not there does not count; who asks for its value gets its own.

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

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
#define hf_prefix(name, first, last, of)                                        \
  template <class V>                                                            \
  inline hf_value<V> name(const V& value, unsigned line = __builtin_LINE()) {   \
    using T = hf_value<V>;                                                      \
    const hf_lanes<T> all = hf_exchange<T>(value, line);                        \
    T a = T(first);                                                             \
    for (unsigned i = 0; i < all.lane + last; ++i) {                            \
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

hf_reduce(simd_sum, a + b) hf_reduce(simd_product, a * b)
hf_reduce(simd_max, metal::max(a, b)) hf_reduce(simd_min, metal::min(a, b))
hf_reduce(simd_and, a & b) hf_reduce(simd_or, a | b) hf_reduce(simd_xor, a ^ b)
hf_prefix(simd_prefix_exclusive_sum, 0, 0, a + b)
hf_prefix(simd_prefix_inclusive_sum, 0, 1, a + b)
hf_prefix(simd_prefix_exclusive_product, 1, 0, a * b)
hf_prefix(simd_prefix_inclusive_product, 1, 1, a * b)
hf_shuffle(simd_shuffle, by) hf_shuffle(simd_broadcast, by)
hf_shuffle(simd_shuffle_down, lane + by) hf_shuffle(simd_shuffle_up, lane - by)
hf_shuffle(simd_shuffle_xor, lane ^ by)
hf_shuffle(simd_shuffle_rotate_down, (lane + by) % 32)
hf_shuffle(simd_shuffle_rotate_up, (lane - by) % 32)

template <class V>
inline hf_value<V> simd_broadcast_first(const V& value, unsigned line = __builtin_LINE()) {
  return hf_exchange<hf_value<V>>(value, line)[0];
}
inline bool simd_all(bool value, unsigned line = __builtin_LINE()) {
  return metal::simd_min(value, line);
}
inline bool simd_any(bool value, unsigned line = __builtin_LINE()) {
  return metal::simd_max(value, line);
}
struct simd_vote {
  typedef unsigned long vote_t;
  vote_t hf_lanes_of;
  explicit operator vote_t() const { return hf_lanes_of; }
  bool any() const { return hf_lanes_of != 0; }
};
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
