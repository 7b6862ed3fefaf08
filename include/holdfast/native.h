#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Arrays shared with others who use the same GPU through its driver's own streams: for DLPack and
// the like. A native stream is a CUstream of the GPU's primary context. Everything here is ordered
// on the device; nothing waits on the host. UnsupportedError for devices without native streams.

// The elements of an array where the device has them, for work of others that only reads them. It
// keeps the memory like any other user of the array. Movable; any thread may drop it.
class NativeView {
 public:
  // Evaluates the array, and makes what is put on `reader` from now on wait for the elements.
  // Raises the failure of a node that failed; UsageError if the elements wait for something that
  // the host has yet to do.
  NativeView(Array array, void* reader);
  // As above, for a reader that has its own ways to wait: nothing waits for the elements.
  static NativeView unordered(Array array);
  NativeView(NativeView&& other) noexcept;
  NativeView& operator=(NativeView&& other) noexcept;
  // The memory is not reused before what the stream `last_reader` has by now is done; see
  // set_last_reader. If the stream cannot be asked any more, the memory is never reused, and a
  // warning says so (log topic memory).
  ~NativeView();

  // The address of the first element (a CUdeviceptr), behind the layout's offset; zero if there are
  // no elements.
  uint64_t address() const noexcept { return address_; }
  const Array& array() const noexcept { return array_; }
  // The stream whose work the destructor asks for; `reader`, unless it is set. Needed for streams
  // that are another's on another thread, such as CUDA's per-thread default stream.
  void set_last_reader(void* stream) noexcept { last_reader_ = stream; }

 private:
  explicit NativeView(Array array);
  void end() noexcept;

  Array array_;
  uint64_t address_ = 0;
  void* last_reader_ = nullptr;
};

// Like from_external, for memory of the device itself: `address` is known to its driver. Whoever
// uses the array waits, on the device, for what the native stream `writer` has by now; null: the
// elements are there already. The deleter runs once nothing of ours can touch the memory any more.
Array from_native(uint64_t address, Dtype dtype, const Shape& shape, void* writer,
                  std::function<void()> deleter, std::string name = {}, const On& on = {});

// A native stream of the device's own with none of its work on it, the same for every caller:
// others put the waits there that from_native is to follow, by naming it as the writer.
void* native_stream(const Device& device);
// The number by which others who use the driver know the device (CUDA's ordinal); -1: none.
int32_t driver_ordinal(const Device& device);

}  // namespace holdfast

#pragma GCC visibility pop
