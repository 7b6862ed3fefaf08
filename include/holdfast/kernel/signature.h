#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/kernel/definition.h"
#include "holdfast/kernel/dtype.h"

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Compiled in: each value is a variant of its own.
using ConstantValue = std::variant<bool, int64_t, Dtype>;
struct Constant {
  std::string name;
  ConstantValue value;
  friend bool operator==(const Constant&, const Constant&) = default;
};

// A run-time value of a kernel parameter; it makes no new variant. C++ types keep their width,
// except that a double becomes float32, since most GPUs lack double; of_float64 makes a float64.
struct Scalar {
  Dtype dtype = Dtype::int32;
  uint64_t bits = 0;  // the low bytes, as the dtype lays them out

  Scalar() = default;
  Scalar(std::same_as<bool> auto v) : dtype(Dtype::bool_), bits(v ? 1 : 0) {}
  Scalar(int32_t v) : dtype(Dtype::int32), bits(static_cast<uint32_t>(v)) {}
  Scalar(uint32_t v) : dtype(Dtype::uint32), bits(v) {}
  Scalar(int64_t v) : dtype(Dtype::int64), bits(static_cast<uint64_t>(v)) {}
  Scalar(uint64_t v) : dtype(Dtype::uint64), bits(v) {}
  Scalar(float v) : dtype(Dtype::float32), bits(std::bit_cast<uint32_t>(v)) {}
  Scalar(double v) : Scalar(static_cast<float>(v)) {}
  static Scalar of_float64(double v) {
    Scalar s;
    s.dtype = Dtype::float64;
    s.bits = std::bit_cast<uint64_t>(v);
    return s;
  }
};
struct Param {
  std::string name;
  Scalar value;
};
struct ParamType {
  std::string name;
  Dtype dtype = Dtype::int32;
  friend bool operator==(const ParamType&, const ParamType&) = default;
};

struct ArgumentType {
  Dtype dtype = Dtype::float32;
  // The number of dimensions. A variant depends on whether it is zero. It depends on the exact rank
  // only if the kernel uses the argument's shape, strides or ndim; otherwise callers may give any.
  uint32_t rank = 1;
  friend bool operator==(const ArgumentType&, const ArgumentType&) = default;
};

// Everything that a call adds to a definition to decide its code.
struct CallSignature {
  std::vector<ArgumentType> inputs{};
  std::vector<ArgumentType> outputs{};
  std::vector<ArgumentType> in_place{};
  std::vector<Constant> constants{};
  std::vector<ParamType> params{};
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

inline constexpr uint32_t kMaxRank = 8;

// What is wrong with this call of a checked definition, as a sentence: a count that differs; a
// param that is unknown (neither body, header nor natives use the name); a constant or param whose
// name is given twice, reserved or an argument's; a rank above kMaxRank. A 0-d output is fine.
Failure check(const Definition& definition, const CallSignature& signature);
// The part of check() that looks only at the names of constants and params.
Failure check_names(const Definition& definition, std::span<const std::string_view> constants,
                    std::span<const std::string_view> params);

// The constants that neither body, header nor natives name. None if the natives include a finished
// module, since modules show no names. Borrows the signature.
std::vector<const Constant*> unused_constants(const Definition& definition,
                                              const CallSignature& signature);

// "x: float16[2], w: float16[2] -> y: float16[2]; T = float16, N = 768; eps: float32", for messages
// and logs: what tells variants of a kernel apart.
std::string describe(const Definition& definition, const CallSignature& signature);

}  // namespace holdfast::kernel

#pragma GCC visibility pop
