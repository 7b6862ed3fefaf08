#pragma once

#include <cstdint>

namespace holdfast::kernel {

// Threads along each axis: of a grid, or of a threadgroup.
struct Size3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  constexpr bool empty() const noexcept { return x == 0 || y == 0 || z == 0; }
  friend bool operator==(const Size3&, const Size3&) = default;
};

}  // namespace holdfast::kernel
