#pragma once

// For the header of kernels: exponentials in simple operations, of which compilers make vectors on
// a CPU; they call the C library's function for one element at a time. GPUs have their own.
namespace holdfast::array {

// exp_of(x): off by 1.01 units in the last place at most, subnormal results included, for every
// seventh float, with fused products and sums. The coefficients are those of Cephes.
inline constexpr const char* kExpOfText = R"(
inline float exp_of(float x) {
#ifdef __CUDACC__
  return metal::exp(x);
#else
  // Beyond these are infinity and zero.
  const float above = x < -104.0f ? -104.0f : x;
  const float v = above > 89.0f ? 89.0f : above;
  const float shifted = v * 1.44269504f + 12582912.0f;  // its low bits are the whole number
  const float whole = shifted - 12582912.0f;
  const float f = (v - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * (f * f) + f + 1.0f;
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
