// Atomic types, and the way from one to the memory behind it. Orders are names alone: all are
// relaxed, which is what Metal has.
#define hf_has_atomics

template <class T>
struct hf_atomic {
  T hf_stored;
};

namespace metal {

template <class T>
using atomic = hf_atomic<T>;
typedef hf_atomic<int> atomic_int;
typedef hf_atomic<uint> atomic_uint;
typedef hf_atomic<bool> atomic_bool;
typedef hf_atomic<float> atomic_float;
typedef hf_atomic<ulong> atomic_ulong;
enum memory_order {
  memory_order_relaxed,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst
};

}  // namespace metal

template <class T>
hf_inline T* hf_cell(const volatile hf_atomic<T>* at) {
  return const_cast<T*>(&at->hf_stored);
}
template <class P>
struct hf_pointed;
template <class T>
struct hf_pointed<T*> {
  using type = T;
};
