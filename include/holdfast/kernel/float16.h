#pragma once

#include <bit>
#include <cstdint>

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Two-byte floats on the host: storage, and conversion to and from float, rounding to nearest even.
// NaNs stay NaNs; what is too large becomes infinite.

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) : bits(from(value)) {}
  explicit operator float() const noexcept {
    const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
    const uint32_t exponent = (bits >> 10) & 31U;
    const uint32_t mantissa = bits & 0x3ffU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    // Subnormal: a multiple of 2^-24, which float has exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  friend bool operator==(Float16, Float16) = default;

 private:
  static uint16_t from(float value) noexcept {
    const auto word = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000U);
    const uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
      // Adding this makes the float unit round to the last place of a subnormal.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000U));
    }
    const uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<uint16_t>(sign | ((magnitude + 0xc8000fffU + odd) >> 13));
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(from(value)) {}
  explicit operator float() const noexcept { return std::bit_cast<float>(uint32_t{bits} << 16); }
  friend bool operator==(BFloat16, BFloat16) = default;

 private:
  static uint16_t from(float value) noexcept {
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(word >> 16 | 0x40U);
    return static_cast<uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
};

}  // namespace holdfast::kernel

#pragma GCC visibility pop
