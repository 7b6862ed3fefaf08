// The threadgroup of this thread, by the whole grid, of which a dispatch may be a part.
struct hf_group : hf_group_place {
  hf_inline explicit hf_group(const hf_launch& launch)
      : hf_group_place(launch, blockIdx.x + launch.first_group[0],
                       blockIdx.y + launch.first_group[1], blockIdx.z + launch.first_group[2]) {}
  hf_inline bool has_this_thread() const {
    return threadIdx.x < size[0] && threadIdx.y < size[1] && threadIdx.z < size[2];
  }
  hf_inline unsigned index() const {
    return (threadIdx.z * size[1] + threadIdx.y) * size[0] + threadIdx.x;
  }
};
