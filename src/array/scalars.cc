#include "holdfast/array/scalars.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

kernel::Scalar bits_of(Dtype dtype, uint64_t bits) {
  const uint64_t width = size_of(dtype).value * 8;
  kernel::Scalar scalar;
  scalar.dtype = dtype;
  scalar.bits = width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
  return scalar;
}

kernel::Scalar float_of(double value, Dtype dtype) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case Dtype::float16: return bits_of(dtype, Float16(narrow).bits);
    case Dtype::bfloat16: return bits_of(dtype, BFloat16(narrow).bits);
    case Dtype::float32: return bits_of(dtype, std::bit_cast<uint32_t>(narrow));
    default: return bits_of(dtype, std::bit_cast<uint64_t>(value));
  }
}

[[noreturn]] void refuse(const std::string& value, Dtype dtype) {
  throw UsageError(fmt::format("{} does not exist in {}", value, kernel::to_string(dtype)));
}

}  // namespace

kernel::Scalar scalar_of(int64_t value, Dtype dtype) {
  if (is_floating(dtype)) return float_of(static_cast<double>(value), dtype);
  if (dtype == Dtype::bool_) return bits_of(dtype, value != 0 ? 1 : 0);
  const uint64_t width = size_of(dtype).value * 8;
  const bool fits = is_unsigned_integer(dtype)
                        ? value >= 0 && (width == 64 || value < (int64_t{1} << width))
                        : width == 64 || (value >= -(int64_t{1} << (width - 1)) &&
                                          value < (int64_t{1} << (width - 1)));
  if (!fits) refuse(fmt::format("{}", value), dtype);
  return bits_of(dtype, static_cast<uint64_t>(value));
}

kernel::Scalar scalar_of(double value, Dtype dtype) {
  if (is_floating(dtype)) return float_of(value, dtype);
  if (dtype == Dtype::bool_) return bits_of(dtype, value != 0 ? 1 : 0);
  if (dtype == Dtype::uint64 && value >= 0x1p63 && value < 0x1p64) {
    return bits_of(dtype, static_cast<uint64_t>(value));
  }
  if (std::trunc(value) != value || value < -0x1p63 || value >= 0x1p63) {
    refuse(fmt::format("{}", value), dtype);
  }
  return scalar_of(static_cast<int64_t>(value), dtype);
}

kernel::Scalar converted(const kernel::Scalar& value, Dtype dtype) {
  if (value.dtype == dtype) return value;
  switch (value.dtype) {
    case Dtype::float16:
      return scalar_of(
          double{static_cast<float>(std::bit_cast<Float16>(static_cast<uint16_t>(value.bits)))},
          dtype);
    case Dtype::bfloat16:
      return scalar_of(
          double{static_cast<float>(std::bit_cast<BFloat16>(static_cast<uint16_t>(value.bits)))},
          dtype);
    case Dtype::float32:
      return scalar_of(double{std::bit_cast<float>(static_cast<uint32_t>(value.bits))}, dtype);
    case Dtype::float64: return scalar_of(std::bit_cast<double>(value.bits), dtype);
    case Dtype::uint64:
      if (value.bits >> 63 != 0) {
        if (dtype == Dtype::bool_) return bits_of(dtype, 1);
        if (!is_floating(dtype)) refuse(fmt::format("{}", value.bits), dtype);
        return scalar_of(static_cast<double>(value.bits), dtype);
      }
      return scalar_of(static_cast<int64_t>(value.bits), dtype);
    default: break;
  }
  const uint64_t width = size_of(value.dtype).value * 8;
  auto number = static_cast<int64_t>(value.bits);
  if (is_signed_integer(value.dtype) && width < 64) {
    number = static_cast<int64_t>(value.bits << (64 - width)) >> (64 - width);
  }
  return scalar_of(number, dtype);
}

}  // namespace holdfast::array
