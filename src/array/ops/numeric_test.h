#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/array.h"
#include "holdfast/views.h"

// Arrays of any dtype as doubles, and how close to a double-precision reference a result must be.
namespace holdfast::numeric {

// Calls f.operator()<T>() with the C++ type of the dtype.
template <typename F>
decltype(auto) with_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::bool_: return f.template operator()<bool>();
    case Dtype::int8: return f.template operator()<int8_t>();
    case Dtype::uint8: return f.template operator()<uint8_t>();
    case Dtype::int16: return f.template operator()<int16_t>();
    case Dtype::uint16: return f.template operator()<uint16_t>();
    case Dtype::int32: return f.template operator()<int32_t>();
    case Dtype::uint32: return f.template operator()<uint32_t>();
    case Dtype::int64: return f.template operator()<int64_t>();
    case Dtype::uint64: return f.template operator()<uint64_t>();
    case Dtype::float16: return f.template operator()<Float16>();
    case Dtype::bfloat16: return f.template operator()<BFloat16>();
    case Dtype::float32: return f.template operator()<float>();
    case Dtype::float64: break;
  }
  return f.template operator()<double>();
}

template <typename T>
T from_double(double v) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return T(static_cast<float>(v));
  } else if constexpr (std::same_as<T, bool>) {
    return v != 0;
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(static_cast<int64_t>(v));  // wraps around
  } else {
    return static_cast<T>(v);
  }
}
template <typename T>
double to_double(T v) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(v));
  } else {
    return static_cast<double>(v);
  }
}

// The nearest value that the dtype has; of integers the part before the point, wrapped around.
inline double rounded(double v, Dtype dtype) {
  return with_type(dtype, [&]<typename T>() { return to_double(from_double<T>(v)); });
}

inline Array array_of(const std::vector<double>& values, const Shape& shape, Dtype dtype) {
  return with_type(dtype, [&]<typename T>() {
    // Not a vector: one of bool has no elements that lie in memory.
    const auto typed = std::make_unique<T[]>(values.size());
    std::ranges::transform(values, typed.get(), from_double<T>);
    return Array(std::span<const T>(typed.get(), values.size()), shape);
  });
}

// Numbers from all over [low, high] that the dtype has; unsigned ones without their sign. The same
// for the same arguments.
inline std::vector<double> numbers(size_t count, double low, double high, Dtype dtype,
                                   int seed = 0) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    const double golden = static_cast<double>(i + 1) * 0.6180339887498949 + seed * 0.37;
    const double v = low + (high - low) * (golden - std::floor(golden));
    const bool has_sign = is_floating(dtype) || is_signed_integer(dtype);
    values[i] = rounded(has_sign ? v : std::abs(v), dtype);
  }
  return values;
}

// Evaluates.
inline std::vector<double> values_of(const Array& array) {
  return with_type(array.dtype(), [&]<typename T>() {
    std::vector<double> values;
    for (const T v : array.to_vector<T>()) values.push_back(to_double(v));
    return values;
  });
}

// How far a correctly rounded result is from the exact one, at most, as a part of it.
inline double half_ulp(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 0x1p-11;
    case Dtype::bfloat16: return 0x1p-8;
    case Dtype::float32: return 0x1p-24;
    case Dtype::float64: return 0x1p-53;
    default: return 0;
  }
}
// The same near zero, where floats lie evenly: half the distance of subnormal numbers.
inline double half_step(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return 0x1p-25;
    case Dtype::bfloat16: return 0x1p-134;
    case Dtype::float32: return 0x1p-150;
    default: return 0;
  }
}

// `wanted` is exact (not rounded to the dtype). A result may be off by one rounding to the dtype
// and by `ulps` roundings of the type it is computed in: float32 for two-byte floats. Two roundings
// of the dtype are allowed, since a computed value on the edge between two may go to either side.
// Integers and bool must be equal; NaN equals NaN; infinities must be equal, but what is too large
// for the dtype only by its last place may be either.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& wanted,
                         Dtype dtype, double ulps, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  const double computed =
      is_floating(dtype) ? 2 * ulps * std::min(half_ulp(dtype), half_ulp(Dtype::float32)) : 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = wanted[i];
    if (std::isnan(w) && std::isnan(got[i])) continue;
    const double nearest = rounded(w, dtype);
    if (got[i] == w || got[i] == nearest) continue;
    const double allowed = 2 * half_step(dtype) + (2 * half_ulp(dtype) + computed) * std::abs(w);
    // Written so that a NaN fails.
    if (std::abs(got[i] - w) <= allowed) continue;
    FAIL() << what << ": element " << i << " is " << got[i] << ", and the reference is " << w
           << "; allowed are " << allowed;
  }
}

// The same elements in memory that lies in other ways.
enum class Lie : uint8_t { contiguous, transposed, reversed, spread, offset };
inline constexpr Lie kLies[] = {Lie::contiguous, Lie::transposed, Lie::reversed, Lie::spread,
                                Lie::offset};
inline const char* to_string(Lie lie) {
  constexpr const char* kNames[] = {"contiguous", "transposed", "reversed", "spread", "offset"};
  return kNames[static_cast<size_t>(lie)];
}

// The view of `array` that undoes what was done to the elements when they were laid out. Evaluates.
inline Array laid_out(const Array& array, Lie lie) {
  const size_t rank = array.ndim();
  if (lie == Lie::contiguous || rank == 0) return array;
  // A copy through the host: nothing of the operations under test takes part in it.
  const auto fresh = [](const Array& view) {
    return array_of(values_of(view), view.shape(), view.dtype());
  };
  const std::vector<Slice> backwards(rank, Slice{.step = -1});
  switch (lie) {
    case Lie::transposed: return transpose(fresh(transpose(array)));
    case Lie::reversed: return slice(fresh(slice(array, backwards)), backwards);
    default: break;
  }
  // Each element of the last axis followed by another one, or the axis by a first one.
  const int64_t n = array.shape(-1);
  std::vector<double> values;
  const std::vector<double> own = values_of(array);
  Shape shape = array.shape();
  shape[rank - 1] = lie == Lie::spread ? 2 * n : n + 1;
  for (size_t i = 0; i < own.size(); ++i) {
    if (lie == Lie::offset && static_cast<int64_t>(i) % n == 0) values.push_back(1);
    values.push_back(own[i]);
    if (lie == Lie::spread) values.push_back(1);
  }
  if (own.empty()) values.resize(static_cast<size_t>(elements(shape)));
  std::vector<Slice> part(rank);
  part.back() = lie == Lie::spread ? Slice{.step = 2} : Slice{.start = 1};
  return slice(array_of(values, shape, array.dtype()), part);
}

}  // namespace holdfast::numeric
