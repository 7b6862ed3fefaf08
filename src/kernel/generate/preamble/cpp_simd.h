// Types of operations of a simdgroup.

namespace metal {

struct simd_vote {
  typedef unsigned long vote_t;
  vote_t hf_lanes_of;
  explicit operator vote_t() const { return hf_lanes_of; }
  bool any() const { return hf_lanes_of != 0; }
};

}  // namespace metal
