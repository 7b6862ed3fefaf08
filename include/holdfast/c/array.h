#pragma once

#include "holdfast/c/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// A lazy array of numbers. Its elements never change. Nothing is computed until it is evaluated,
// which every function that touches elements does; such a function fails as the work failed that
// was to compute them. Releasing the last handle that can reach an array frees its memory as soon
// as no recorded work needs it: in flight, you need not keep anything.
typedef struct hf_array hf_array;

// `stream`, a parameter of everything that builds an array, says where its work goes. It may be
// NULL: then to the newest hf_stream_scope's stream, if that is of the inputs' device or there are
// no inputs; else to the default stream of the inputs' device; else to that of the default device.

// A copy of your elements, in row-major order; `size` is their number of bytes. `data` may be NULL
// if there are none.
HF_API hf_status hf_array_create(hf_dtype dtype, const int64_t* shape, size_t ndim,
                                 const void* data, size_t size, hf_stream* stream,
                                 hf_array** array);
// Of shape ().
HF_API hf_status hf_array_create_scalar(hf_scalar value, hf_stream* stream, hf_array** array);
// Uses your memory in place: row-major elements, at an address that is a multiple of an element's
// size, on a device whose memory the host can reach. Holdfast never writes to it, and you must not
// before deleter(context) was called. That happens once, on any thread, when nothing can touch the
// memory any more; not if this call fails. The deleter must not evaluate arrays. It may be NULL.
HF_API hf_status hf_array_from_external(void* data, hf_dtype dtype, const int64_t* shape,
                                        size_t ndim, void (*deleter)(void* context), void* context,
                                        hf_stream* stream, hf_array** array);

HF_API hf_array* hf_array_retain(hf_array* array);
HF_API void hf_array_release(hf_array* array);

HF_API hf_status hf_array_dtype(hf_array* array, hf_dtype* dtype);
HF_API hf_status hf_array_ndim(hf_array* array, size_t* ndim);
// The number of elements, and of their bytes.
HF_API hf_status hf_array_size(hf_array* array, int64_t* size);
HF_API hf_status hf_array_nbytes(hf_array* array, size_t* nbytes);
// Writes the ndim lengths; `capacity` is how many there is room for.
HF_API hf_status hf_array_shape(hf_array* array, size_t capacity, int64_t* shape);
// The same for the strides, in elements.
HF_API hf_status hf_array_strides(hf_array* array, size_t capacity, int64_t* strides);
HF_API hf_status hf_array_is_row_contiguous(hf_array* array, int32_t* is);
HF_API hf_status hf_array_stream(hf_array* array, hf_stream** stream);
HF_API hf_status hf_array_device(hf_array* array, hf_device** device);
// 1 if its work has been recorded (it may still be running) or has failed.
HF_API hf_status hf_array_is_recorded(hf_array* array, int32_t* is);

// A label for errors and reports. Names the array once; later names are ignored. Views share it.
HF_API hf_status hf_array_set_name(hf_array* array, hf_text name);
// Empty if it has none; you free it with hf_free.
HF_API hf_status hf_array_name(hf_array* array, char** name);

// Records everything that these arrays need, submits it, and returns. What does not depend on a
// failure is recorded in any case; then the call fails as the first failed array did, with compile
// errors among others. A failed array stays failed; one that found no memory has not failed: free
// something and evaluate it again.
HF_API hf_status hf_async_eval(hf_array* const* arrays, size_t count);
// Does the same, then waits for these arrays and nothing else. The limit covers that wait, not
// compiling.
HF_API hf_status hf_eval(hf_array* const* arrays, size_t count, hf_timeout timeout);

// Evaluates the array, waits for it, and copies its elements in row-major order. `size` is the room
// at `data` in bytes: that of the elements, exactly.
HF_API hf_status hf_array_read(hf_array* array, hf_timeout timeout, void* data, size_t size);
// The element of an array of size one, in the array's dtype. Waits.
HF_API hf_status hf_array_item(hf_array* array, hf_timeout timeout, hf_scalar* value);
// "array([1, 2], dtype=int32)"; large arrays are abbreviated. You free it with hf_free. Waits.
HF_API hf_status hf_array_to_text(hf_array* array, hf_timeout timeout, char** text);

// The elements in row-major order, in the device's own memory, read-only, until the map is
// released. It keeps them alive. An array that is not row-contiguous is shown as a copy.
// HF_ERROR_USAGE or HF_ERROR_UNSUPPORTED if the host cannot reach the device's memory: use
// hf_array_read. Waits.
typedef struct hf_map hf_map;
HF_API hf_status hf_array_map(hf_array* array, hf_timeout timeout, hf_map** map);
HF_API void hf_map_release(hf_map* map);
// NULL and zero for an array without elements.
HF_API hf_status hf_map_bytes(hf_map* map, const void** data, size_t* size);

// The same elements on another device; another handle of this array if it is there already.
// Evaluating it moves the elements without blocking the host.
HF_API hf_status hf_to_device(hf_array* array, hf_device* device, hf_array** moved);

// NumPy's .npy files. bfloat16 is refused, since the format lacks it. HF_ERROR_ENVIRONMENT if the
// file cannot be read or written, HF_ERROR_USAGE if it does not hold an array.
HF_API hf_status hf_load_npy(hf_text path, hf_stream* stream, hf_array** array);
// Evaluates the array. The file appears whole or not at all. Waits.
HF_API hf_status hf_save_npy(hf_text path, hf_array* array, hf_timeout timeout);

#ifdef __cplusplus
}
#endif
