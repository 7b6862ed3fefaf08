// Types of barriers and of operations of a simdgroup.

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

struct simd_vote {
  typedef unsigned long vote_t;
  vote_t hf_lanes_of;
  explicit operator vote_t() const { return hf_lanes_of; }
  bool any() const { return hf_lanes_of != 0; }
};

}  // namespace metal
