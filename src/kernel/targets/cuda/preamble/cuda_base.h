// What differs from the C++ target in the names that are always there, and where a thread is.
#undef hf_tg_local
#define hf_tg_local __shared__
#undef hf_inline
#define hf_inline __device__ __forceinline__

// The threadgroup of this thread, by the whole grid, of which a dispatch may be a part.
struct hf_group {
  unsigned position[3];
  unsigned at[3];    // its first thread
  unsigned size[3];  // smaller at an edge of the grid
  unsigned threads;
  hf_inline explicit hf_group(const hf_launch& launch)
      : position{blockIdx.x + launch.first_group[0], blockIdx.y + launch.first_group[1],
                 blockIdx.z + launch.first_group[2]} {
    threads = 1;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      at[i] = position[i] * launch.group[i];
      const unsigned rest = launch.grid[i] - at[i];
      size[i] = rest < launch.group[i] ? rest : launch.group[i];
      threads *= size[i];
    }
  }
  hf_inline bool has_this_thread() const {
    return threadIdx.x < size[0] && threadIdx.y < size[1] && threadIdx.z < size[2];
  }
  hf_inline unsigned index() const {
    return (threadIdx.z * size[1] + threadIdx.y) * size[0] + threadIdx.x;
  }
};
