// Grids count threads: every one of them runs once, and no other.

#include "holdfast/kernel/scenarios/kernel_rig_test.h"

namespace holdfast::kernel {
namespace {

struct Shape {
  Size3 grid;
  Size3 threadgroup;
};

// Whole groups, an edge on each axis, groups larger than the grid, a last simdgroup of few lanes.
constexpr std::array kShapes{Shape{{64, 1, 1}, {32, 1, 1}}, Shape{{70, 1, 1}, {32, 1, 1}},
                             Shape{{7, 5, 3}, {4, 2, 2}},   Shape{{1, 1, 1}, {8, 8, 1}},
                             Shape{{33, 9, 1}, {8, 4, 1}},  Shape{{2, 3, 50}, {1, 1, 40}},
                             Shape{{100, 2, 1}, {40, 1, 1}}};

// Counts each thread once, where it stands.
const char* const kCount = R"(
uint3 p = thread_position_in_grid;
uint at = (p.z * threads_per_grid.y + p.y) * threads_per_grid.x + p.x;
seen[at] += 1;
)";

// The same with a barrier, and with what the threads of the group have in common.
const char* const kCountTogether = R"(
threadgroup uint arrived[1024];
uint3 p = thread_position_in_grid;
uint3 size = threads_per_threadgroup;
uint threads = size.x * size.y * size.z;
arrived[thread_index_in_threadgroup] = 1;
threadgroup_barrier(mem_flags::mem_threadgroup);
uint together = 0;
for (uint i = 0; i < threads; ++i) together += arrived[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
arrived[thread_index_in_threadgroup] = 0;
uint at = (p.z * threads_per_grid.y + p.y) * threads_per_grid.x + p.x;
seen[at] += together == threads ? 1 : 1000;
)";

void count_threads(testing::World& world, const char* body) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const Kernel kernel({.name = "count", .in_place = {"seen"}, .source = body});
  for (const Shape& shape : kShapes) {
    const uint64_t threads = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    const TestArray seen = array_of(*stream, std::vector<uint32_t>(threads + 64), "seen");
    const std::array in_place{seen.ref()};
    rig.kernels.launch(
        *stream, kernel,
        {.in_place = in_place, .grid = shape.grid, .threadgroup = shape.threadgroup});
    std::vector<uint32_t> expected(threads, 1);
    expected.resize(threads + 64, 0);
    EXPECT_EQ(values_of<uint32_t>(*stream, seen), expected)
        << shape.grid.x << " x " << shape.grid.y << " x " << shape.grid.z;
  }
}

KERNEL_SCENARIO(mlx_4534_grid_not_divisible_by_the_group) { count_threads(world, kCount); }

KERNEL_SCENARIO(mlx_4534_grid_not_divisible_by_the_group_with_barriers) {
  count_threads(world, kCountTogether);
}

KERNEL_SCENARIO(mlx_4534_threadgroup_too_large) {
  KernelRig rig(world);
  const auto stream = rig.stream("main");
  const Kernel kernel({.name = "count", .in_place = {"seen"}, .source = kCount});
  const TestArray seen = array_of(*stream, std::vector<uint32_t>(8), "seen");
  const std::array in_place{seen.ref()};
  for (const Size3 group :
       {Size3{1025, 1, 1}, Size3{64, 32, 1}, Size3{0xffffffff, 0xffffffff, 4}}) {
    try {
      rig.kernels.launch(*stream, kernel,
                         {.in_place = in_place, .grid = {8, 1, 1}, .threadgroup = group});
      ADD_FAILURE() << "a threadgroup of " << group.x << " x " << group.y << " was taken";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("'count'"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("1024"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(rig.target->compiles(), 0U);
  // It works on.
  rig.kernels.launch(*stream, kernel,
                     {.in_place = in_place, .grid = {8, 1, 1}, .threadgroup = {1024, 1, 1}});
  EXPECT_EQ(values_of<uint32_t>(*stream, seen), std::vector<uint32_t>(8, 1));
}

}  // namespace
}  // namespace holdfast::kernel
