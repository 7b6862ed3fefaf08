// A threadgroup of the whole grid. Targets derive theirs, which know the position.
struct hf_group_place {
  unsigned position[3];
  unsigned at[3];    // its first thread
  unsigned size[3];  // smaller at an edge of the grid
  unsigned threads;
  hf_inline hf_group_place(const hf_launch& launch, unsigned x, unsigned y, unsigned z)
      : position{x, y, z}, threads(1) {
    for (int i = 0; i < 3; ++i) {
      at[i] = position[i] * launch.group[i];
      const unsigned rest = launch.grid[i] - at[i];
      size[i] = rest < launch.group[i] ? rest : launch.group[i];
      threads *= size[i];
    }
  }
};
