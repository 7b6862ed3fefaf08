// The names that kernel text for the CPU always has. A lean text: no header of any library, and
// later parts only where a kernel uses them.

namespace metal {

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef _Float16 float16_t;

namespace precise = metal;
namespace fast = metal;

}  // namespace metal
using namespace metal;

#define device
#define constant
#define thread
#define threadgroup
#define hf_tg_local static thread_local
#define hf_algn(...) __attribute__((aligned(__VA_ARGS__)))
#define hf_const const
#define METAL_FUNC inline
#define hf_inline __attribute__((always_inline)) inline

struct alignas(8) hf_launch {
  unsigned grid[3];
  unsigned group[3];
  unsigned first_group[3];
  unsigned groups_per_dispatch;
  unsigned block[3];
};

// Threadgroups along an axis.
hf_inline unsigned hf_groups(const hf_launch& launch, int axis) {
  return static_cast<unsigned>(
      (static_cast<unsigned long>(launch.grid[axis]) + launch.group[axis] - 1) /
      launch.group[axis]);
}

struct hf_bfloat;
template <class T, int N>
struct hf_vec;
template <class V, int N, int... I>
struct hf_swizzle;

// Of vectors and swizzles; 0 for scalars.
template <class T>
inline constexpr int hf_width = 0;
template <class T, int N>
inline constexpr int hf_width<hf_vec<T, N>> = N;
template <class V, int N, int... I>
inline constexpr int hf_width<hf_swizzle<V, N, I...>> = sizeof...(I);

// The value that an expression of the type has: a swizzle's is a vector.
template <class T>
struct hf_type {
  using value = T;
  using element = T;
};
template <class T, int N>
struct hf_type<hf_vec<T, N>> {
  using value = hf_vec<T, N>;
  using element = T;
};
template <class V, int N, int... I>
struct hf_type<hf_swizzle<V, N, I...>> : hf_type<V> {};
template <class T>
using hf_value = typename hf_type<T>::value;
template <class T>
using hf_element = typename hf_type<T>::element;

template <bool C, class A, class B>
struct hf_if {
  using type = A;
};
template <class A, class B>
struct hf_if<false, A, B> {
  using type = B;
};
template <class A, class B>
inline constexpr bool hf_same = false;
template <class A>
inline constexpr bool hf_same<A, A> = true;

namespace metal {

template <class To, class From>
hf_inline To as_type(const From& from) {
  hf_value<From> value = from;
  static_assert(sizeof(To) == sizeof(value), "as_type needs types of one size");
  To to;
  __builtin_memcpy(&to, &value, sizeof(To));
  return to;
}

// Where the element lies whose number, in row-major order, is `elem`; in elements.
template <class I, class S, class D>
hf_inline long elem_to_loc(I elem, const S* shape, const D* strides, int ndim) {
  long loc = 0;
  for (int i = ndim - 1; i >= 0; --i) {
    const I extent = static_cast<I>(shape[i]);
    loc += static_cast<long>(elem % extent) * static_cast<long>(strides[i]);
    elem /= extent;
  }
  return loc;
}

}  // namespace metal

// `0.5h`.
#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wliteral-suffix"
#pragma GCC diagnostic ignored "-Wuser-defined-literals"
constexpr _Float16 operator""h(long double v) { return static_cast<_Float16>(v); }
#pragma GCC diagnostic pop
#endif
