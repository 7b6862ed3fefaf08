// Atomics of the hardware: threadgroups run on several threads of the host.

template <class T>
hf_inline T hf_load(T* at) {
  T value;
  __atomic_load(at, &value, __ATOMIC_RELAXED);
  return value;
}
template <class T, class F>
hf_inline T hf_update(T* at, F next_of) {
  T old = hf_load(at);
  T next = next_of(old);
  while (!__atomic_compare_exchange(at, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    next = next_of(old);
  }
  return old;
}
// Integers of which the hardware has atomic sums.
template <class T>
inline constexpr bool hf_counts = false;
template <>
inline constexpr bool hf_counts<int> = true;
template <>
inline constexpr bool hf_counts<unsigned> = true;
template <>
inline constexpr bool hf_counts<long> = true;
template <>
inline constexpr bool hf_counts<unsigned long> = true;

#define hf_fetch(name, of)                                                      \
  template <class P, class U>                                                   \
  hf_inline auto name(const P& at, U value, metal::memory_order) {              \
    auto* const cell = hf_cell(at);                                             \
    using T = typename hf_pointed<decltype(hf_cell(at))>::type;                 \
    const T b = static_cast<T>(value);                                          \
    return hf_update(cell, [=](T a) { return static_cast<T>(of); });            \
  }
#define hf_fetch_counted(name, builtin, of)                                     \
  template <class P, class U>                                                   \
  hf_inline auto name(const P& at, U value, metal::memory_order) {              \
    auto* const cell = hf_cell(at);                                             \
    using T = typename hf_pointed<decltype(hf_cell(at))>::type;                 \
    const T b = static_cast<T>(value);                                          \
    if constexpr (hf_counts<T>) {                                               \
      return builtin(cell, b, __ATOMIC_RELAXED);                                \
    } else {                                                                    \
      return hf_update(cell, [=](T a) { return static_cast<T>(of); });          \
    }                                                                           \
  }

namespace metal {

hf_fetch_counted(atomic_fetch_add_explicit, __atomic_fetch_add, a + b)
hf_fetch_counted(atomic_fetch_sub_explicit, __atomic_fetch_sub, a - b)
hf_fetch_counted(atomic_fetch_or_explicit, __atomic_fetch_or, a | b)
hf_fetch_counted(atomic_fetch_and_explicit, __atomic_fetch_and, a & b)
hf_fetch_counted(atomic_fetch_xor_explicit, __atomic_fetch_xor, a ^ b)
hf_fetch(atomic_fetch_min_explicit, b < a ? b : a)
hf_fetch(atomic_fetch_max_explicit, a < b ? b : a)

template <class P>
hf_inline auto atomic_load_explicit(const P& at, memory_order) {
  return hf_load(hf_cell(at));
}
template <class P, class U>
hf_inline void atomic_store_explicit(const P& at, U value, memory_order) {
  auto* const cell = hf_cell(at);
  auto stored = static_cast<typename hf_pointed<decltype(hf_cell(at))>::type>(value);
  __atomic_store(cell, &stored, __ATOMIC_RELAXED);
}
template <class P, class U>
hf_inline auto atomic_exchange_explicit(const P& at, U value, memory_order) {
  using T = typename hf_pointed<decltype(hf_cell(at))>::type;
  T stored = static_cast<T>(value);
  T old;
  __atomic_exchange(hf_cell(at), &stored, &old, __ATOMIC_RELAXED);
  return old;
}
template <class P, class T, class U>
hf_inline bool atomic_compare_exchange_weak_explicit(const P& at, T* expected, U value,
                                                     memory_order, memory_order) {
  T stored = static_cast<T>(value);
  return __atomic_compare_exchange(hf_cell(at), expected, &stored, true, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED);
}
hf_inline void atomic_thread_fence(...) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace metal
