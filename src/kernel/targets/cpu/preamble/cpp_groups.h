// The threadgroup with this number.
struct hf_group {
  const hf_call* call;
  unsigned position[3];
  unsigned at[3];    // its first thread
  unsigned size[3];  // smaller at an edge of the grid
  unsigned threads;
  hf_inline hf_group(const hf_launch& launch, unsigned long number) {
    const unsigned long wide = hf_groups(launch, 0);
    const unsigned long high = hf_groups(launch, 1);
    position[0] = static_cast<unsigned>(number % wide);
    position[1] = static_cast<unsigned>(number / wide % high);
    position[2] = static_cast<unsigned>(number / wide / high);
    threads = 1;
    for (int i = 0; i < 3; ++i) {
      at[i] = position[i] * launch.group[i];
      const unsigned rest = launch.grid[i] - at[i];
      size[i] = rest < launch.group[i] ? rest : launch.group[i];
      threads *= size[i];
    }
  }
};
