#include "holdfast/kernel/targets/grid_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "holdfast/base/rounding.h"

namespace holdfast::kernel {
namespace {

// An axis of a grid: groups of one size, and perhaps one that is left over.
struct GridAxis {
  uint32_t block = 1;  // threads of a block: no group of a shorter grid has more
  uint32_t groups = 1;
  uint32_t rest = 0;  // threads of the group behind them
  uint32_t most = 1;  // groups of one dispatch

  uint64_t dispatches() const { return ceil_div<uint64_t>(groups, most); }
  uint64_t parts() const { return dispatches() + (rest != 0 ? 1 : 0); }
  // Of part i: where it begins, its groups, and the threads of each.
  std::array<uint32_t, 3> part(uint64_t i) const {
    if (i == dispatches()) return {groups, 1, rest};
    const auto first = static_cast<uint32_t>(i * most);
    return {first, std::min(most, groups - first), block};
  }
};

GridAxis axis_of(uint32_t threads, uint32_t group, uint32_t most, bool whole) {
  GridAxis axis{.block = std::min(group, threads), .most = most};
  axis.groups = threads / axis.block;
  axis.rest = threads % axis.block;
  if (!whole && axis.rest != 0) {
    ++axis.groups;
    axis.rest = 0;
  }
  return axis;
}

}  // namespace

Failure cut_grid(const LaunchShape& shape, const hal::Groups& most, WholeAxes whole,
                 DispatchParts& parts) {
  const Size3& grid = shape.grid;
  const Size3& group = shape.group;
  const GridAxis x = axis_of(grid.x, group.x, most.x, whole.x);
  const GridAxis y = axis_of(grid.y, group.y, most.y, whole.y);
  const GridAxis z = axis_of(grid.z, group.z, most.z, whole.z);
  uint64_t count = 0;  // each axis has fewer than 2^32
  if (__builtin_mul_overflow(x.parts() * y.parts(), z.parts(), &count) || count > kMostParts) {
    return Failure(ErrorCode::usage,
                   fmt::format("a grid of {} x {} x {} threads in threadgroups of {} x {} x {} "
                               "takes more than {} dispatches, since one has {} x {} x {} groups "
                               "at most; make x the longest axis, or the threadgroup larger",
                               grid.x, grid.y, grid.z, group.x, group.y, group.z, kMostParts,
                               most.x, most.y, most.z));
  }
  for (uint64_t k = 0; k < z.parts(); ++k) {
    for (uint64_t j = 0; j < y.parts(); ++j) {
      for (uint64_t i = 0; i < x.parts(); ++i) {
        const auto [x0, x_groups, x_block] = x.part(i);
        const auto [y0, y_groups, y_block] = y.part(j);
        const auto [z0, z_groups, z_block] = z.part(k);
        parts.push_back({{x_groups, y_groups, z_groups},
                         {{grid.x, grid.y, grid.z},
                          {group.x, group.y, group.z},
                          {x0, y0, z0},
                          1,
                          {x_block, y_block, z_block}}});
      }
    }
  }
  return {};
}

}  // namespace holdfast::kernel
