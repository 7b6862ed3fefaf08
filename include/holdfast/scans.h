#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Scans: at each position along an axis, the sum or the product of all elements up to that one.
// Without an axis, of the flattened array. Dtypes are those of sum and prod. Two-byte floats are
// computed in float32 and rounded once for each result.
struct Scan {
  bool reverse = false;   // from the end to the start
  bool inclusive = true;  // false: without the element itself, so the first result is 0 or 1
};
Array cumsum(const Array& a, std::optional<int64_t> axis = {}, const Scan& how = {},
             const On& on = {});
Array cumprod(const Array& a, std::optional<int64_t> axis = {}, const Scan& how = {},
              const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
