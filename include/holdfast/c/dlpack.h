#pragma once

#include "holdfast/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

// Arrays from and for other libraries, through DLPack 1 (github.com/dmlc/dlpack). Include
// dlpack/dlpack.h for what is inside these structs.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

typedef int32_t hf_copying;
enum {
  HF_COPY_IF_NEEDED = 0,  // elements are shared if possible
  HF_COPY_ALWAYS = 1,
  HF_COPY_NEVER = 2  // fails if they cannot be shared
};

// The array's elements as a tensor in memory of the host, with the array's strides. You own it
// until you call its deleter, on any thread; it keeps the elements' memory until then. Elements are
// shared if the host can reach the device's memory. Shared elements must not be written to:
// versioned tensors say so in their flags, the others cannot. Evaluates the array and waits for it.
HF_API hf_status hf_array_to_dlpack(hf_array* array, hf_copying copying, hf_timeout timeout,
                                    struct DLManagedTensor** tensor);
HF_API hf_status hf_array_to_dlpack_versioned(hf_array* array, hf_copying copying,
                                              hf_timeout timeout,
                                              struct DLManagedTensorVersioned** tensor);

// An array of the tensor's elements, in the tensor's memory if the device can use that. Takes the
// tensor over and calls its deleter once, on any thread, when nothing can touch the memory any
// more; not if this call fails. Nobody may write to the elements meanwhile. The deleter must not
// evaluate arrays. A tensor in memory of an NVIDIA GPU becomes an array there; finish what writes
// to it first.
HF_API hf_status hf_array_from_dlpack(struct DLManagedTensor* tensor, hf_copying copying,
                                      hf_stream* stream, hf_array** array);
HF_API hf_status hf_array_from_dlpack_versioned(struct DLManagedTensorVersioned* tensor,
                                                hf_copying copying, hf_stream* stream,
                                                hf_array** array);

#ifdef __cplusplus
}
#endif
