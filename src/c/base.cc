#include "holdfast/c/base.h"

#include <cstdlib>

#include "holdfast/c/arguments.h"
#include "holdfast/version.h"

using holdfast::c::call;
using holdfast::c::dtype_of;
using holdfast::c::needed;

uint32_t hf_abi_version(void) { return HF_ABI_VERSION; }

uint32_t hf_version(void) {
  return HOLDFAST_VERSION_MAJOR * 1000000 + HOLDFAST_VERSION_MINOR * 1000 + HOLDFAST_VERSION_PATCH;
}

void hf_interrupt_waits(void) { holdfast::interrupt_waits(); }

void hf_free(char* text) { std::free(text); }

hf_status hf_dtype_size(hf_dtype dtype, size_t* size) {
  return call(__func__, [&] { needed(size, "size") = size_of(dtype_of(dtype)).value; });
}

hf_status hf_dtype_name(hf_dtype dtype, const char** name) {
  return call(__func__, [&] { needed(name, "name") = holdfast::to_string(dtype_of(dtype)); });
}

hf_status hf_dtype_promote(hf_dtype a, hf_dtype b, hf_dtype* promoted) {
  return call(__func__, [&] {
    needed(promoted, "promoted") =
        static_cast<hf_dtype>(holdfast::promote(dtype_of(a), dtype_of(b)));
  });
}
