// The threadgroup of this thread, by the whole grid, of which a dispatch may be a part.
struct hf_group : hf_group_place {
  hf_inline explicit hf_group(const hf_launch& launch)
      : hf_group_place(launch, hf_spirv_group_id(0) + launch.first_group[0],
                       hf_spirv_group_id(1) + launch.first_group[1],
                       hf_spirv_group_id(2) + launch.first_group[2]) {}
  hf_inline bool has_this_thread() const {
    return hf_spirv_local_id(0) < size[0] && hf_spirv_local_id(1) < size[1] &&
           hf_spirv_local_id(2) < size[2];
  }
  hf_inline unsigned index() const {
    return (hf_spirv_local_id(2) * size[1] + hf_spirv_local_id(1)) * size[0] + hf_spirv_local_id(0);
  }
};
