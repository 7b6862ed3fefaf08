#pragma once

#include "holdfast/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A device and everything that arrays on it need: memory, compiled kernels, streams. Handles are
// cheap; arrays and streams keep alive what they need of it.
typedef struct hf_device hf_device;
// Where work goes: what one stream is given runs as if one after another. Streams of one device run
// concurrently and wait for each other, on the device, where their arrays depend on each other.
typedef struct hf_stream hf_stream;

// The process's one device of that name, opened on first use, which may take seconds: "cpu",
// "cuda:0", "vulkan:0", "validate(cpu)". For an unknown name, the error lists those that exist.
HF_API hf_status hf_device_get(hf_text name, hf_device** device);
// The device that HOLDFAST_DEVICE names; otherwise the first GPU for which kernels can be compiled
// here, else the CPU. Opened on first use.
HF_API hf_status hf_device_default(hf_device** device);
HF_API hf_status hf_device_set_default(hf_device* device);

// Zero: the default, or what the environment says.
typedef struct hf_device_options {
  size_t struct_size;
  uint64_t memory_limit;      // bytes that arrays may use at once, pooled memory included
  uint64_t deferred_limit;    // bytes of dead memory that may wait for the device
  uint64_t kernel_variants;   // compiled kernels to keep in memory
  uint64_t kernel_bytes;      // and their bytes
  int64_t shutdown_bound_ns;  // how long closing lets work in flight finish
  uint32_t submit_commands;   // an evaluation submits once it has recorded so many commands
  uint32_t max_in_flight;     // submissions in flight
  uint64_t submit_bytes;      // or once they write so many bytes
  int64_t submit_time_ns;     // or once so much time has passed
} hf_device_options;
// A separate device, not shared with hf_device_get. `options` may be NULL.
HF_API hf_status hf_device_open(hf_text name, const hf_device_options* options, hf_device** device);
// Closes the device for all its handles: lets work in flight finish, up to a time limit, and fails
// everything after it with HF_ERROR_CLOSED. Not needed: a device closes with its last user, and
// when main returns. Closing it again does nothing. Waits.
HF_API hf_status hf_device_close(hf_device* device);

HF_API hf_device* hf_device_retain(hf_device* device);
HF_API void hf_device_release(hf_device* device);
// Whether both are the same device: 1 or 0.
HF_API hf_status hf_device_equal(hf_device* a, hf_device* b, int32_t* equal);
// "cpu", and words for people. Both are valid as long as the handle.
HF_API hf_status hf_device_name(hf_device* device, const char** name);
HF_API hf_status hf_device_description(hf_device* device, const char** description);

typedef struct hf_device_info {
  size_t struct_size;
  uint64_t memory;             // bytes, in all
  uint64_t max_buffer;         // bytes of one array
  uint32_t max_group_threads;  // of a threadgroup
  uint32_t queues;             // streams that can run at the same time
  uint32_t host_visible;       // 1: the host can map its arrays
  uint32_t many_weak_threads;  // 1: a GPU's threads; 0: a CPU's
} hf_device_info;
// You set info->struct_size.
HF_API hf_status hf_device_get_info(hf_device* device, hf_device_info* info);

// Waits for everything recorded on any of its streams; fails as the first of it that failed.
HF_API hf_status hf_device_synchronize(hf_device* device, hf_timeout timeout);

// The most bytes that arrays may use at once, pooled memory included. Zero: the device's own limit.
HF_API hf_status hf_device_set_memory_limit(hf_device* device, uint64_t bytes);
// How much free memory is kept for later arrays; the excess goes back to the device.
HF_API hf_status hf_device_set_cache_limit(hf_device* device, uint64_t bytes);
// Gives all free memory back to the device.
HF_API hf_status hf_device_clear_cache(hf_device* device);
// Bounds the compiled kernels that are kept in memory.
HF_API hf_status hf_device_set_kernel_limits(hf_device* device, uint64_t variants, uint64_t bytes);
// Drops every compiled kernel that no recorded work needs.
HF_API hf_status hf_device_clear_kernels(hf_device* device);

// Counts since the device was opened, except where a field says "now". Bytes and nanoseconds.
typedef struct hf_stats {
  size_t struct_size;
  uint64_t memory_live;  // now: given out and in use
  uint64_t memory_live_peak;
  uint64_t memory_deferred;  // now: dead, and still needed by work in flight
  uint64_t memory_deferred_peak;
  uint64_t memory_pooled;    // now: free, kept for later arrays
  uint64_t memory_reserved;  // now: all that the device gave
  uint64_t memory_reserved_peak;
  uint64_t live_objects;      // now
  uint64_t deferred_objects;  // now
  uint64_t waits;             // of the host, for any reason; see hf_device_waits
  uint64_t wait_ns;
  uint64_t submissions;
  uint64_t submissions_in_flight;  // now
  uint64_t retired;
  uint64_t commands;
  uint64_t barriers;
  uint64_t failures;     // submissions that failed
  uint64_t kernel_hits;  // compiled kernels found by signature
  uint64_t kernel_misses;
  uint64_t kernel_disk_hits;
  uint64_t kernel_compiles;
  uint64_t kernel_failures;
  uint64_t kernel_evictions;
  uint64_t kernel_compile_ns;
  uint64_t kernel_variants;  // now
  uint64_t kernel_bytes;     // now
  uint64_t nodes_recorded;
  uint64_t nodes_failed;
  uint64_t donated;        // inputs whose memory became an output's
  uint64_t hidden_copies;  // made because a kernel wanted another layout, or memory of its own
  uint64_t early_submits;  // while an evaluation was still recording
} hf_stats;
// You set stats->struct_size. Cheap.
HF_API hf_status hf_device_get_stats(hf_device* device, hf_stats* stats);
// The same for people, some lines; you free it with hf_free.
HF_API hf_status hf_device_stats_text(hf_device* device, char** text);

// Why the host waited.
typedef int32_t hf_wait_reason;
enum {
  HF_WAIT_SYNCHRONIZE = 0,      // you asked for a whole stream
  HF_WAIT_POINT = 1,            // you asked for arrays
  HF_WAIT_READBACK = 2,         // you asked for bytes
  HF_WAIT_MAP = 3,              // you asked for a pointer
  HF_WAIT_BUDGET = 4,           // too much waited for the device
  HF_WAIT_OUT_OF_MEMORY = 5,    // an allocation found no room
  HF_WAIT_SUBMISSION_TURN = 6,  // another thread was submitting to the same queue
  HF_WAIT_HOST_ACCESS = 7,      // another thread was reading the same memory
  HF_WAIT_RECORDING = 8,        // another thread was recording an array that was needed
  HF_WAIT_SHUTDOWN = 9          // the device was closed
};
HF_API hf_status hf_device_waits(hf_device* device, hf_wait_reason reason, uint64_t* count,
                                 uint64_t* total_ns, uint64_t* longest_ns);

// Starts (1) or stops (0) measuring how long kernels run. HF_ERROR_UNSUPPORTED if the device cannot
// measure.
HF_API hf_status hf_device_set_profiling(hf_device* device, int32_t on);
// What was measured: a kernel's name, its launches and their time on the device, longest first.
typedef struct hf_kernel_times hf_kernel_times;
HF_API hf_status hf_device_kernel_times(hf_device* device, hf_kernel_times** times);
HF_API void hf_kernel_times_release(hf_kernel_times* times);
HF_API hf_status hf_kernel_times_size(hf_kernel_times* times, size_t* size);
// The name is valid as long as `times`.
HF_API hf_status hf_kernel_times_get(hf_kernel_times* times, size_t index, const char** kernel,
                                     uint64_t* launches, uint64_t* total_ns);

// The names that hf_device_get accepts on this machine. A kind of device of which there is none is
// listed too: `missing` then says why it cannot be opened and what to do; otherwise it is empty.
// Loads drivers, which may take seconds.
typedef struct hf_device_list hf_device_list;
HF_API hf_status hf_device_list_create(hf_device_list** list);
HF_API void hf_device_list_release(hf_device_list* list);
HF_API hf_status hf_device_list_size(hf_device_list* list, size_t* size);
// The texts are valid as long as `list`.
HF_API hf_status hf_device_list_get(hf_device_list* list, size_t index, const char** name,
                                    const char** description, const char** missing);

// A new stream. The name appears in errors and reports; it may be empty.
HF_API hf_status hf_stream_create(hf_device* device, hf_text name, hf_stream** stream);
// The stream of arrays that name no other.
HF_API hf_status hf_device_default_stream(hf_device* device, hf_stream** stream);
HF_API hf_stream* hf_stream_retain(hf_stream* stream);
// A stream that nobody uses any more submits what it has recorded.
HF_API void hf_stream_release(hf_stream* stream);
// Whether both are the same stream: 1 or 0.
HF_API hf_status hf_stream_equal(hf_stream* a, hf_stream* b, int32_t* equal);
HF_API hf_status hf_stream_device(hf_stream* stream, hf_device** device);
// Valid as long as the handle.
HF_API hf_status hf_stream_name(hf_stream* stream, const char** name);
// Submits what was recorded; never waits for the device.
HF_API hf_status hf_stream_flush(hf_stream* stream);
// Waits for everything recorded here; fails as the last of it did.
HF_API hf_status hf_stream_synchronize(hf_stream* stream, hf_timeout timeout);
// Makes later work of `stream` wait, on the device, for what `other` has recorded so far.
HF_API hf_status hf_stream_wait_for(hf_stream* stream, hf_stream* other);

// Sends what this thread builds to a stream, from here to hf_stream_scope_end. The newest scope of
// the thread that has not ended counts; scopes may end in any order. One that is ended by another
// thread stops counting with the next array of the thread that began it, and leaves a few bytes.
typedef struct hf_stream_scope hf_stream_scope;
HF_API hf_status hf_stream_scope_begin(hf_stream* stream, hf_stream_scope** scope);
// NULL does nothing.
HF_API void hf_stream_scope_end(hf_stream_scope* scope);

#ifdef __cplusplus
}
#endif
