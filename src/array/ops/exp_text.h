#pragma once

// For the header of kernels: exponentials in simple operations, of which compilers make vectors on
// a CPU; they call the C library's function for one element at a time. GPUs have their own.
namespace holdfast::array {

// exp_of(x): off by 1.01 units in the last place at most, subnormal results included, for every
// seventh float, where a processor fuses products and sums. It says itself where they are fused, so
// that it comes to the same in every kernel. The coefficients are those of Cephes.
inline constexpr const char* kExpOfText = R"(
inline float exp_product_and(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline float exp_of(float x) {
#ifdef __CUDACC__
  return metal::exp(x);
#else
  // Beyond these are infinity and zero.
  const float above = x < -104.0f ? -104.0f : x;
  const float v = above > 89.0f ? 89.0f : above;
  // Its low bits are the whole number.
  const float shifted = exp_product_and(v, 1.44269504f, 12582912.0f);
  const float whole = shifted - 12582912.0f;
  const float f =
      exp_product_and(whole, 2.12194440e-4f, exp_product_and(whole, -0.693359375f, v));
  float p = 1.9875691500e-4f;
  p = exp_product_and(p, f, 1.3981999507e-3f);
  p = exp_product_and(p, f, 8.3334519073e-3f);
  p = exp_product_and(p, f, 4.1665795894e-2f);
  p = exp_product_and(p, f, 1.6666665459e-1f);
  p = exp_product_and(p, f, 5.0000001201e-1f);
  p = exp_product_and(p, f * f, f) + 1.0f;
  // In two steps, since one float has not all powers that are needed.
  const uint power = as_type<uint>(shifted) - 0x4b400000u;
  const uint first = uint(int(power) >> 1);
  const uint second = power - first;
  return p * as_type<float>((first + 127u) << 23) * as_type<float>((second + 127u) << 23);
#endif
}
inline double exp_of(double x) { return metal::exp(x); }
)";

}  // namespace holdfast::array
