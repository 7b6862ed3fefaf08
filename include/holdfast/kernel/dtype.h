#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "holdfast/base/bytes.h"

#pragma GCC visibility push(default)

namespace holdfast::kernel {

enum class Dtype : uint8_t {
  bool_,  // NOLINT(readability-identifier-naming): bool is taken
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64
};
inline constexpr unsigned kDtypes = 13;

Bytes size_of(Dtype dtype);
// "float16", "bool".
const char* to_string(Dtype dtype);
std::optional<Dtype> parse_dtype(std::string_view text);
// As kernel text spells it: "half", "uint", "long".
const char* kernel_type(Dtype dtype);

}  // namespace holdfast::kernel

#pragma GCC visibility pop
