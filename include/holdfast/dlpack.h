#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "holdfast/array.h"

// What is inside is in dlpack/dlpack.h (github.com/dmlc/dlpack), which users bring.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

#pragma GCC visibility push(default)

namespace holdfast {

// Arrays from and for other libraries, through DLPack 1: in memory of the host, and in memory of
// NVIDIA GPUs, where work is ordered on the device and nothing waits on the host.

// Calls a tensor's own deleter, if it has one.
struct DlpackDeleter {
  void operator()(DLManagedTensor* tensor) const noexcept;
  void operator()(DLManagedTensorVersioned* tensor) const noexcept;
};
using DlpackTensor = std::unique_ptr<DLManagedTensor, DlpackDeleter>;
using DlpackTensorVersioned = std::unique_ptr<DLManagedTensorVersioned, DlpackDeleter>;

enum class Copying : uint8_t {
  if_needed,  // elements are shared if possible
  always,
  never,  // UsageError or UnsupportedError if they cannot be shared
};

// The array's elements as a tensor, with the array's strides. It keeps their memory, and any thread
// may drop it. Elements are shared if the host can reach the device's memory. Shared elements must
// not be written to: versioned tensors say so in their flags, the others cannot. Evaluates the
// array and waits for it.
DlpackTensor to_dlpack(const Array& array, Copying copying = Copying::if_needed,
                       const WaitLimit& limit = {});
DlpackTensorVersioned to_dlpack_versioned(const Array& array, Copying copying = Copying::if_needed,
                                          const WaitLimit& limit = {});

// The elements in the memory of the array's NVIDIA GPU, for a consumer that only reads them. What
// is put on the CUstream `reader` from now on waits for them; null: the consumer waits in its own
// way. CUDA's default streams are 1 (legacy) and 2 (per thread). Once the tensor is dropped, the
// memory is reused after what `reader` has by then or, for null and 2, what the legacy stream has.
// Copying::always copies on the GPU; the others share. UsageError if the elements wait for
// something that the host has yet to do; UnsupportedError for arrays on other devices.
DlpackTensor to_dlpack_on_gpu(const Array& array, void* reader,
                              Copying copying = Copying::if_needed);
DlpackTensorVersioned to_dlpack_versioned_on_gpu(const Array& array, void* reader,
                                                 Copying copying = Copying::if_needed);

// Given what drops a tensor: calls it, or has it called elsewhere or later.
using DropTensor = std::function<void(std::function<void()> drop)>;

// An array of the tensor's elements, in the tensor's memory if the device can use it. Takes the
// tensor over unless it raises, and drops it when nothing can touch the memory any more: on any
// thread, or through `drop` where that is given, which must not throw. Nobody may write to the
// elements meanwhile. UsageError for a null tensor, memory that is neither the host's nor an NVIDIA
// GPU's, elements of no dtype, too many axes, lengths or strides that fit in no memory, and a later
// major version than 1.
//
// A tensor in memory of a GPU becomes an array on gpu_of_dlpack(id, on), whose users wait for what
// that device's native_stream has by now: let the producer order its work for that stream first.
// Copying::always waits for the copy.
Array from_dlpack(DlpackTensor&& tensor, Copying copying = Copying::if_needed, const On& on = {},
                  DropTensor drop = {});
Array from_dlpack(DlpackTensorVersioned&& tensor, Copying copying = Copying::if_needed,
                  const On& on = {}, DropTensor drop = {});

// The number of the NVIDIA GPU whose memory the tensor is in; -1: other memory.
int32_t gpu_number(const DlpackTensor& tensor);
int32_t gpu_number(const DlpackTensorVersioned& tensor);
// The device that uses the memory of the GPU whose number in DLPack is `id`: that of `on` or the
// default device if either is that GPU. UsageError if `on` is another device.
Device gpu_of_dlpack(int32_t id, const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
