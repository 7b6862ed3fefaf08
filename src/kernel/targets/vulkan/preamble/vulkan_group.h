// The threadgroup of this thread, by the whole grid, of which a dispatch may be a part.
struct hf_group : hf_group_place {
  hf_inline explicit hf_group(const hf_launch& launch)
      : hf_group_place(launch, hf_spirv_group_id(0) + launch.first_group[0],
                       hf_spirv_group_id(1) + launch.first_group[1],
                       hf_spirv_group_id(2) + launch.first_group[2]) {}
  // No dispatch starts more threads than a whole group has. The first one along an axis is always
  // there, which drivers know of groups of one dimension; in one branch.
  hf_inline bool has_this_thread(const hf_launch& launch) const {
    const unsigned y = hf_spirv_local_id(1);
    const unsigned z = hf_spirv_local_id(2);
    return bool((hf_spirv_local_id(0) < launch.grid[0] - at[0]) &
                ((y == 0) | (y < launch.grid[1] - at[1])) &
                ((z == 0) | (z < launch.grid[2] - at[2])));
  }
  hf_inline unsigned index() const {
    return (hf_spirv_local_id(2) * size[1] + hf_spirv_local_id(1)) * size[0] + hf_spirv_local_id(0);
  }
};
