#pragma once

#include <concepts>

namespace holdfast {

// How many pieces of `size` hold `amount`, the last of them perhaps in part. Neither is negative,
// `size` is not zero, and their sum is representable.
template <std::integral T>
constexpr T ceil_div(T amount, T size) noexcept {
  return (amount + size - 1) / size;
}

// The least multiple of `step` that is not less.
template <std::integral T>
constexpr T round_up(T amount, T step) noexcept {
  return ceil_div(amount, step) * step;
}

}  // namespace holdfast
