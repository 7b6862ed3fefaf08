// Atomics of the GPU.

// The word of the GPU's atomics that a value is, or is a part of.
template <class T>
struct hf_word_of {
  using word = typename hf_if<sizeof(T) == 8, unsigned long long, unsigned>::type;
  using bits = typename hf_if<sizeof(T) == 1, unsigned char,
                              typename hf_if<sizeof(T) == 2, unsigned short, word>::type>::type;
  word* at;
  unsigned shift = 0;

  hf_inline explicit hf_word_of(T* cell) {
    if constexpr (sizeof(T) < 4) {
      const auto address = reinterpret_cast<unsigned long>(cell);
      at = reinterpret_cast<word*>(address & ~3ul);
      shift = static_cast<unsigned>(address & 3) * 8;
    } else {
      at = reinterpret_cast<word*>(cell);
    }
  }
  hf_inline word load() const { return *const_cast<volatile word*>(at); }
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
  const hf_word_of<T> word(at);
  return word.value_in(word.load());
}
template <class T, class F>
hf_inline T hf_update(T* at, F next_of) {
  const hf_word_of<T> word(at);
  auto old = word.load();
  for (;;) {
    const T value = word.value_in(old);
    const auto found = atomicCAS(word.at, old, word.with(old, next_of(value)));
    if (found == old) return value;
    old = found;
  }
}

template <class T>
inline constexpr bool hf_is_word = hf_same<T, int> || hf_same<T, unsigned>;
template <class T>
inline constexpr bool hf_is_long = hf_same<T, long> || hf_same<T, unsigned long>;
template <class T>
inline constexpr bool hf_adds =
    hf_is_word<T> || hf_is_long<T> || hf_same<T, float> || hf_same<T, double>;
// As the GPU's functions take them: long long for long, and sums of longs as unsigned.
template <class T>
using hf_as_long = typename hf_if<hf_same<T, unsigned long>, unsigned long long,
                                  typename hf_if<hf_same<T, long>, long long, T>::type>::type;
template <class T>
using hf_as_sum = typename hf_if<hf_is_long<T>, unsigned long long, T>::type;

#define hf_fetch(name, condition, taken, of_gpu, of)                                              \
  template <class P, class U>                                                                     \
  hf_inline auto name(const P& at, U value, metal::memory_order) {                                \
    auto* const cell = hf_cell(at);                                                               \
    using T = typename hf_pointed<decltype(hf_cell(at))>::type;                                   \
    const T b = static_cast<T>(value);                                                            \
    if constexpr (condition) {                                                                    \
      return static_cast<T>(of_gpu(reinterpret_cast<taken<T>*>(cell), static_cast<taken<T>>(b))); \
    } else {                                                                                      \
      return hf_update(cell, [=](T a) { return static_cast<T>(of); });                            \
    }                                                                                             \
  }
template <class T>
hf_inline T hf_subtract(T* at, T value) {
  return ::atomicAdd(at, T(0) - value);
}

namespace metal {

// clang-format off
hf_fetch(atomic_fetch_add_explicit, hf_adds<T>, hf_as_sum, ::atomicAdd, a + b)
hf_fetch(atomic_fetch_sub_explicit, hf_adds<T>, hf_as_sum, hf_subtract, a - b)
hf_fetch(atomic_fetch_or_explicit, hf_is_word<T> || hf_is_long<T>, hf_as_long, ::atomicOr, a | b)
hf_fetch(atomic_fetch_and_explicit, hf_is_word<T> || hf_is_long<T>, hf_as_long, ::atomicAnd, a & b)
hf_fetch(atomic_fetch_xor_explicit, hf_is_word<T> || hf_is_long<T>, hf_as_long, ::atomicXor, a ^ b)
hf_fetch(atomic_fetch_min_explicit, hf_is_word<T> || hf_is_long<T>, hf_as_long, ::atomicMin,
         b < a ? b : a)
hf_fetch(atomic_fetch_max_explicit, hf_is_word<T> || hf_is_long<T>, hf_as_long, ::atomicMax,
         a < b ? b : a);
// clang-format on

template <class P>
hf_inline auto atomic_load_explicit(const P& at, memory_order) {
  return hf_load(hf_cell(at));
}
template <class P, class U>
hf_inline auto atomic_exchange_explicit(const P& at, U value, memory_order) {
  using T = typename hf_pointed<decltype(hf_cell(at))>::type;
  const T stored = static_cast<T>(value);
  return hf_update(hf_cell(at), [=](T) { return stored; });
}
template <class P, class U>
hf_inline void atomic_store_explicit(const P& at, U value, memory_order order) {
  using T = typename hf_pointed<decltype(hf_cell(at))>::type;
  if constexpr (sizeof(T) < 4) {
    // A neighbour in the same word may be changing.
    atomic_exchange_explicit(at, value, order);
  } else {
    const hf_word_of<T> word(hf_cell(at));
    *const_cast<volatile typename hf_word_of<T>::word*>(word.at) =
        word.with(0, static_cast<T>(value));
  }
}
template <class P, class T, class U>
hf_inline bool atomic_compare_exchange_weak_explicit(const P& at, T* expected, U value,
                                                     memory_order, memory_order) {
  const hf_word_of<T> word(hf_cell(at));
  const auto old = word.load();
  const T before = word.value_in(old);
  // By bits, as the hardware compares.
  if (word.with(0, before) == word.with(0, *expected) &&
      atomicCAS(word.at, old, word.with(old, static_cast<T>(value))) == old) {
    return true;
  }
  *expected = before;
  return false;
}
hf_inline void atomic_thread_fence(...) { __threadfence(); }

}  // namespace metal
