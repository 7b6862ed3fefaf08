#pragma once

#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// Dispatches of one launch. More are refused: such a grid is a mistake, or much faster in another
// form.
inline constexpr uint64_t kMostParts = 1024;

// Axes along which no group may have threads outside the grid.
struct WholeAxes {
  bool x = false;
  bool y = false;
  bool z = false;
};

// Adds the dispatches of a launch whose groups are threadgroups, of at most `most` groups each.
// What is left at the end of an axis that must be whole is a dispatch of smaller groups.
Failure cut_grid(const LaunchShape& shape, const hal::Groups& most, WholeAxes whole,
                 DispatchParts& parts);

}  // namespace holdfast::kernel
