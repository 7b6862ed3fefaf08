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

// Arrays from and for other libraries, through DLPack 1, in memory of the host.

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

// Given what drops a tensor: calls it, or has it called elsewhere or later.
using DropTensor = std::function<void(std::function<void()> drop)>;

// An array of the tensor's elements, in the tensor's memory if the device can use it. Takes the
// tensor over unless it raises, and drops it when nothing can touch the memory any more: on any
// thread, or through `drop` where that is given, which must not throw. Nobody may write to the
// elements meanwhile. UsageError for a null tensor, memory that is not the host's, elements of no
// dtype, too many axes, lengths or strides that fit in no memory, and a later major version than 1.
Array from_dlpack(DlpackTensor&& tensor, Copying copying = Copying::if_needed, const On& on = {},
                  DropTensor drop = {});
Array from_dlpack(DlpackTensorVersioned&& tensor, Copying copying = Copying::if_needed,
                  const On& on = {}, DropTensor drop = {});

}  // namespace holdfast

#pragma GCC visibility pop
