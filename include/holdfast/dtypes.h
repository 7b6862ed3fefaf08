#pragma once

#include <concepts>
#include <cstdint>

#include "holdfast/kernel/dtype.h"
#include "holdfast/kernel/float16.h"

#pragma GCC visibility push(default)

namespace holdfast {

using kernel::BFloat16;
using kernel::Dtype;
using kernel::Float16;
using kernel::size_of;
using kernel::to_string;

// NOLINTNEXTLINE(readability-identifier-naming): bool is taken
inline constexpr Dtype bool_ = Dtype::bool_;
inline constexpr Dtype int8 = Dtype::int8;
inline constexpr Dtype uint8 = Dtype::uint8;
inline constexpr Dtype int16 = Dtype::int16;
inline constexpr Dtype uint16 = Dtype::uint16;
inline constexpr Dtype int32 = Dtype::int32;
inline constexpr Dtype uint32 = Dtype::uint32;
inline constexpr Dtype int64 = Dtype::int64;
inline constexpr Dtype uint64 = Dtype::uint64;
inline constexpr Dtype float16 = Dtype::float16;
inline constexpr Dtype bfloat16 = Dtype::bfloat16;
inline constexpr Dtype float32 = Dtype::float32;
inline constexpr Dtype float64 = Dtype::float64;

constexpr bool is_floating(Dtype d) { return d >= Dtype::float16; }
constexpr bool is_integer(Dtype d) { return d > Dtype::bool_ && d < Dtype::float16; }
// int8, int16, int32, int64.
constexpr bool is_signed_integer(Dtype d) {
  return is_integer(d) && (static_cast<unsigned>(d) & 1U) != 0;
}
constexpr bool is_unsigned_integer(Dtype d) { return is_integer(d) && !is_signed_integer(d); }

// The dtype of a result computed from inputs of both dtypes, as in MLX: bool gives way to integers,
// integers to floats; signed with unsigned is the next wider signed one (uint64 with a signed one:
// float32); float16 with bfloat16 is float32. Commutative and associative over floats.
Dtype promote(Dtype a, Dtype b);
// The dtype that functions such as exp and mean return: floats stay, everything else becomes
// float32.
constexpr Dtype floating(Dtype d) { return is_floating(d) ? d : Dtype::float32; }

// The dtype of a C++ type that can be an element.
template <typename T>
struct DtypeOf;
template <>
struct DtypeOf<bool> {
  static constexpr Dtype value = Dtype::bool_;
};
template <>
struct DtypeOf<int8_t> {
  static constexpr Dtype value = Dtype::int8;
};
template <>
struct DtypeOf<uint8_t> {
  static constexpr Dtype value = Dtype::uint8;
};
template <>
struct DtypeOf<int16_t> {
  static constexpr Dtype value = Dtype::int16;
};
template <>
struct DtypeOf<uint16_t> {
  static constexpr Dtype value = Dtype::uint16;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr Dtype value = Dtype::int32;
};
template <>
struct DtypeOf<uint32_t> {
  static constexpr Dtype value = Dtype::uint32;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr Dtype value = Dtype::int64;
};
template <>
struct DtypeOf<uint64_t> {
  static constexpr Dtype value = Dtype::uint64;
};
template <>
struct DtypeOf<Float16> {
  static constexpr Dtype value = Dtype::float16;
};
template <>
struct DtypeOf<BFloat16> {
  static constexpr Dtype value = Dtype::bfloat16;
};
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::float32;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::float64;
};

template <typename T>
concept Element = requires { DtypeOf<T>::value; };

}  // namespace holdfast

#pragma GCC visibility pop
