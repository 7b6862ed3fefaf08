// Threadgroups that lie side by side, from number `first` to the end of their row or to `end`: the
// threads of all of them.
struct hf_rows {
  unsigned long groups;
  unsigned begin[3];
  unsigned end[3];
  hf_inline hf_rows(const hf_launch& launch, unsigned long first, unsigned long end_group) {
    const unsigned long wide = hf_groups(launch, 0);
    const unsigned long high = hf_groups(launch, 1);
    const unsigned long row = first / wide;
    const unsigned long at[3] = {first % wide, row % high, row / high};
    groups = wide - at[0] < end_group - first ? wide - at[0] : end_group - first;
    const unsigned long counts[3] = {groups, 1, 1};
    for (int i = 0; i < 3; ++i) {
      const unsigned long stop = (at[i] + counts[i]) * launch.group[i];
      begin[i] = static_cast<unsigned>(at[i] * launch.group[i]);
      end[i] = stop < launch.grid[i] ? static_cast<unsigned>(stop) : launch.grid[i];
    }
  }
};
