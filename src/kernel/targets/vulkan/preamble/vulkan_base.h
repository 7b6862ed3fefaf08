// What differs from the C++ target in the names that are always there, and what the translator to
// SPIR-V knows by name.

#define hf_has_no_int128
#undef hf_tg_local
#define hf_tg_local static __attribute__((used, loader_uninitialized, section("hf_threadgroup")))
// Threads meet in some functions, so that calls of them are not moved into or out of branches; what
// others have of one's memory may change there.
#define hf_pure extern "C" __attribute__((const, nothrow))
#define hf_meet extern "C" __attribute__((convergent, nothrow))

hf_pure unsigned hf_spirv_local_id(unsigned axis);
hf_pure unsigned hf_spirv_group_id(unsigned axis);
hf_meet void hf_spirv_barrier();
hf_meet void hf_spirv_fence();
