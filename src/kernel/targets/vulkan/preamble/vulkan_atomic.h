// Atomics of the GPU: of words of 32 and 64 bits. What has none is a loop around an exchange.

#define hf_atomics_of(bits, word)                                                        \
  hf_meet word hf_spirv_atomic_load##bits(word* at);                                     \
  hf_meet void hf_spirv_atomic_store##bits(word* at, word value);                        \
  hf_meet word hf_spirv_atomic_exchange##bits(word* at, word value);                     \
  hf_meet word hf_spirv_atomic_add##bits(word* at, word value);                          \
  hf_meet word hf_spirv_atomic_and##bits(word* at, word value);                          \
  hf_meet word hf_spirv_atomic_or##bits(word* at, word value);                           \
  hf_meet word hf_spirv_atomic_xor##bits(word* at, word value);                          \
  hf_meet word hf_spirv_atomic_umin##bits(word* at, word value);                         \
  hf_meet word hf_spirv_atomic_umax##bits(word* at, word value);                         \
  hf_meet word hf_spirv_atomic_smin##bits(word* at, word value);                         \
  hf_meet word hf_spirv_atomic_smax##bits(word* at, word value);                         \
  hf_meet word hf_spirv_atomic_cas##bits(word* at, word next, word expected);            \
  hf_inline word hf_word_load(word* at) { return hf_spirv_atomic_load##bits(at); }       \
  hf_inline void hf_word_store(word* at, word v) { hf_spirv_atomic_store##bits(at, v); } \
  hf_inline word hf_word_exchange(word* at, word v) {                                    \
    return hf_spirv_atomic_exchange##bits(at, v);                                        \
  }                                                                                      \
  hf_inline word hf_word_cas(word* at, word expected, word next) {                       \
    return hf_spirv_atomic_cas##bits(at, next, expected);                                \
  }                                                                                      \
  hf_inline word hf_word_add(word* at, word v) { return hf_spirv_atomic_add##bits(at, v); } \
  hf_inline word hf_word_and(word* at, word v) { return hf_spirv_atomic_and##bits(at, v); } \
  hf_inline word hf_word_or(word* at, word v) { return hf_spirv_atomic_or##bits(at, v); }   \
  hf_inline word hf_word_xor(word* at, word v) { return hf_spirv_atomic_xor##bits(at, v); } \
  hf_inline word hf_word_min(word* at, word v, bool sign) {                              \
    return sign ? hf_spirv_atomic_smin##bits(at, v) : hf_spirv_atomic_umin##bits(at, v); \
  }                                                                                      \
  hf_inline word hf_word_max(word* at, word v, bool sign) {                              \
    return sign ? hf_spirv_atomic_smax##bits(at, v) : hf_spirv_atomic_umax##bits(at, v); \
  }
hf_atomics_of(32, unsigned)
hf_atomics_of(64, unsigned long)

// The word that a value is, or is a part of.
template <class T>
struct hf_word_of_cell {
  using word = typename hf_if<sizeof(T) == 8, unsigned long, unsigned>::type;
  using bits = typename hf_if<sizeof(T) == 1, unsigned char,
                              typename hf_if<sizeof(T) == 2, unsigned short, word>::type>::type;
  word* at;
  unsigned shift = 0;

  hf_inline explicit hf_word_of_cell(T* cell) {
    if constexpr (sizeof(T) < 4) {
      const auto address = reinterpret_cast<unsigned long>(cell);
      at = reinterpret_cast<word*>(address & ~3ul);
      shift = static_cast<unsigned>(address & 3) * 8;
    } else {
      at = reinterpret_cast<word*>(cell);
    }
  }
  hf_inline T value_in(word whole) const {
    return __builtin_bit_cast(T, static_cast<bits>(whole >> shift));
  }
  hf_inline word with(word whole, T value) const {
    const word part = __builtin_bit_cast(bits, value);
    if constexpr (sizeof(T) < 4) {
      return (whole & ~(word{static_cast<bits>(~0u)} << shift)) | part << shift;
    }
    return part;
  }
};

template <class T>
hf_inline T hf_load(T* at) {
  const hf_word_of_cell<T> word(at);
  return word.value_in(hf_word_load(word.at));
}
template <class T, class F>
hf_inline T hf_update(T* at, F next_of) {
  const hf_word_of_cell<T> word(at);
  auto old = hf_word_load(word.at);
  for (;;) {
    const T value = word.value_in(old);
    const auto found = hf_word_cas(word.at, old, word.with(old, next_of(value)));
    if (found == old) return value;
    old = found;
  }
}

template <class T>
inline constexpr bool hf_is_word = hf_same<T, int> || hf_same<T, unsigned> || hf_same<T, long> ||
                                   hf_same<T, unsigned long>;

#define hf_fetch(name, of_gpu, of)                                          \
  template <class P, class U>                                               \
  hf_inline auto name(const P& at, U value, metal::memory_order) {          \
    auto* const cell = hf_cell(at);                                         \
    using T = typename hf_pointed<decltype(hf_cell(at))>::type;             \
    const T b = static_cast<T>(value);                                      \
    if constexpr (hf_is_word<T>) {                                          \
      using word = typename hf_word_of_cell<T>::word;                       \
      auto* const at = reinterpret_cast<word*>(cell);                       \
      return static_cast<T>(of_gpu);                                        \
    } else {                                                                \
      return hf_update(cell, [=](T a) { return static_cast<T>(of); });      \
    }                                                                       \
  }

namespace metal {

// clang-format off
hf_fetch(atomic_fetch_add_explicit, hf_word_add(at, word(b)), a + b)
hf_fetch(atomic_fetch_sub_explicit, hf_word_add(at, word(0) - word(b)), a - b)
hf_fetch(atomic_fetch_or_explicit, hf_word_or(at, word(b)), a | b)
hf_fetch(atomic_fetch_and_explicit, hf_word_and(at, word(b)), a & b)
hf_fetch(atomic_fetch_xor_explicit, hf_word_xor(at, word(b)), a ^ b)
hf_fetch(atomic_fetch_min_explicit, hf_word_min(at, word(b), T(-1) < T(0)), b < a ? b : a)
hf_fetch(atomic_fetch_max_explicit, hf_word_max(at, word(b), T(-1) < T(0)), a < b ? b : a);
// clang-format on

template <class P>
hf_inline auto atomic_load_explicit(const P& at, memory_order) {
  return hf_load(hf_cell(at));
}
template <class P, class U>
hf_inline auto atomic_exchange_explicit(const P& at, U value, memory_order) {
  using T = typename hf_pointed<decltype(hf_cell(at))>::type;
  const T stored = static_cast<T>(value);
  if constexpr (sizeof(T) >= 4) {
    const hf_word_of_cell<T> word(hf_cell(at));
    return word.value_in(hf_word_exchange(word.at, word.with(0, stored)));
  } else {
    return hf_update(hf_cell(at), [=](T) { return stored; });
  }
}
template <class P, class U>
hf_inline void atomic_store_explicit(const P& at, U value, memory_order order) {
  using T = typename hf_pointed<decltype(hf_cell(at))>::type;
  if constexpr (sizeof(T) < 4) {
    // A neighbour in the same word may be changing.
    atomic_exchange_explicit(at, value, order);
  } else {
    const hf_word_of_cell<T> word(hf_cell(at));
    hf_word_store(word.at, word.with(0, static_cast<T>(value)));
  }
}
template <class P, class T, class U>
hf_inline bool atomic_compare_exchange_weak_explicit(const P& at, T* expected, U value,
                                                     memory_order, memory_order) {
  const hf_word_of_cell<T> word(hf_cell(at));
  const auto old = hf_word_load(word.at);
  const T before = word.value_in(old);
  // By bits, as the hardware compares.
  if (word.with(0, before) == word.with(0, *expected) &&
      hf_word_cas(word.at, old, word.with(old, static_cast<T>(value))) == old) {
    return true;
  }
  *expected = before;
  return false;
}
hf_inline void atomic_thread_fence(...) { hf_spirv_fence(); }

}  // namespace metal
