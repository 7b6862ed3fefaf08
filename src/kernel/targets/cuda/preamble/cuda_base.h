// What differs from the C++ target in the names that are always there, and where a thread is.
#undef hf_tg_local
#define hf_tg_local __shared__
#undef hf_inline
#define hf_inline __device__ __forceinline__
