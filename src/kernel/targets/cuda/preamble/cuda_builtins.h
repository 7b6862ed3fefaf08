// What the parts of the preamble that both targets share ask of the compiler, as NVRTC has it.

#define _Float16 hf_half
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000u)
#define __builtin_memcpy ::memcpy

#define hf_builtin(name)                                                                 \
  __device__ __forceinline__ float __builtin_##name##f(float v) { return ::name##f(v); } \
  __device__ __forceinline__ double __builtin_##name(double v) { return ::name(v); }
// clang-format off
hf_builtin(exp) hf_builtin(exp2) hf_builtin(exp10) hf_builtin(expm1) hf_builtin(log)
hf_builtin(log2) hf_builtin(log10) hf_builtin(log1p) hf_builtin(sqrt) hf_builtin(cbrt)
hf_builtin(erf) hf_builtin(erfc) hf_builtin(sin) hf_builtin(cos) hf_builtin(tan) hf_builtin(sinh)
hf_builtin(cosh) hf_builtin(tanh) hf_builtin(asin) hf_builtin(acos) hf_builtin(atan)
hf_builtin(asinh) hf_builtin(acosh) hf_builtin(atanh) hf_builtin(floor) hf_builtin(ceil)
hf_builtin(round) hf_builtin(rint) hf_builtin(trunc) hf_builtin(fabs);
// clang-format on
#undef hf_builtin

#define hf_builtin(name)                                                   \
  __device__ __forceinline__ float __builtin_##name##f(float v, float u) { \
    return ::name##f(v, u);                                                \
  }                                                                        \
  __device__ __forceinline__ double __builtin_##name(double v, double u) { return ::name(v, u); }
// clang-format off
hf_builtin(atan2) hf_builtin(pow) hf_builtin(fmod) hf_builtin(fdim);
// clang-format on
#undef hf_builtin

__device__ __forceinline__ float __builtin_ldexpf(float v, int u) { return ::ldexpf(v, u); }
__device__ __forceinline__ double __builtin_ldexp(double v, int u) { return ::ldexp(v, u); }
__device__ __forceinline__ float __builtin_fmaf(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
__device__ __forceinline__ double __builtin_fma(double a, double b, double c) {
  return ::fma(a, b, c);
}
// By their bits: what fast math may assume of values does not change these.
__device__ __forceinline__ unsigned hf_magnitude(float v) {
  return __float_as_uint(v) & 0x7fffffffu;
}
__device__ __forceinline__ unsigned long long hf_magnitude(double v) {
  return static_cast<unsigned long long>(__double_as_longlong(v)) & 0x7fffffffffffffffull;
}
// NVRTC 13.0 leaves the result of its own copysign(0, x) undefined.
__device__ __forceinline__ float __builtin_copysignf(float v, float u) {
  return __uint_as_float(hf_magnitude(v) | (__float_as_uint(u) & 0x80000000u));
}
__device__ __forceinline__ double __builtin_copysign(double v, double u) {
  return __longlong_as_double(static_cast<long long>(
      hf_magnitude(v) |
      (static_cast<unsigned long long>(__double_as_longlong(u)) & 0x8000000000000000ull)));
}
__device__ __forceinline__ bool __builtin_isnan(float v) { return hf_magnitude(v) > 0x7f800000u; }
__device__ __forceinline__ bool __builtin_isinf(float v) { return hf_magnitude(v) == 0x7f800000u; }
__device__ __forceinline__ bool __builtin_isfinite(float v) {
  return hf_magnitude(v) < 0x7f800000u;
}
__device__ __forceinline__ bool __builtin_isnormal(float v) {
  return hf_magnitude(v) - 0x00800000u < 0x7f000000u;
}
__device__ __forceinline__ bool __builtin_signbit(float v) { return __float_as_int(v) < 0; }
__device__ __forceinline__ bool __builtin_isnan(double v) {
  return hf_magnitude(v) > 0x7ff0000000000000ull;
}
__device__ __forceinline__ bool __builtin_isinf(double v) {
  return hf_magnitude(v) == 0x7ff0000000000000ull;
}
__device__ __forceinline__ bool __builtin_isfinite(double v) {
  return hf_magnitude(v) < 0x7ff0000000000000ull;
}
__device__ __forceinline__ bool __builtin_isnormal(double v) {
  return hf_magnitude(v) - 0x0010000000000000ull < 0x7fe0000000000000ull;
}
__device__ __forceinline__ bool __builtin_signbit(double v) { return __double_as_longlong(v) < 0; }
__device__ __forceinline__ int __builtin_popcount(unsigned v) { return __popc(v); }
__device__ __forceinline__ int __builtin_popcountl(unsigned long v) { return __popcll(v); }
__device__ __forceinline__ int __builtin_clz(unsigned v) { return __clz(static_cast<int>(v)); }
__device__ __forceinline__ int __builtin_clzl(unsigned long v) {
  return __clzll(static_cast<long long>(v));
}
__device__ __forceinline__ int __builtin_ctz(unsigned v) { return __ffs(static_cast<int>(v)) - 1; }
__device__ __forceinline__ int __builtin_ctzl(unsigned long v) {
  return __ffsll(static_cast<long long>(v)) - 1;
}
__device__ __forceinline__ float __builtin_frexpf(float v, int* exponent) {
  return ::frexpf(v, exponent);
}
__device__ __forceinline__ unsigned long __builtin_bswap64(unsigned long v) {
  const unsigned low = __byte_perm(static_cast<unsigned>(v), 0, 0x0123);
  const unsigned high = __byte_perm(static_cast<unsigned>(v >> 32), 0, 0x0123);
  return static_cast<unsigned long>(low) << 32 | high;
}
