#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "python/src/bindings.h"

namespace holdfast::python {

// Memory that another object exports through Python's buffer protocol, for as long as this lives.
// Made and destroyed with the GIL.
class ImportedBuffer {
 public:
  // TypeError for elements that no dtype has, BufferError as the exporter raises it.
  explicit ImportedBuffer(nb::handle exporter);
  ~ImportedBuffer();
  ImportedBuffer(const ImportedBuffer&) = delete;
  ImportedBuffer& operator=(const ImportedBuffer&) = delete;

  Dtype dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  bool read_only() const noexcept { return view_.readonly != 0; }
  const std::byte* data() const noexcept { return static_cast<const std::byte*>(view_.buf); }

  // An array with a copy of the elements.
  Array copied(const On& on) const;
  // An array in the same memory, which keeps the buffer. None if the memory is not fit for it: no
  // elements, or elements that are not aligned.
  static std::optional<Array> shared(const std::shared_ptr<ImportedBuffer>& buffer, const On& on);

 private:
  Py_buffer view_{};
  Dtype dtype_ = Dtype::float32;
  Shape shape_;
  Strides strides_;  // in bytes
};

// The elements that a shape with strides (in elements, which may be negative) reaches: how many lie
// between the first and the last, and the layout as seen from the first.
struct Reached {
  Layout layout;
  int64_t count = 0;
};
Reached reached_by(const Shape& shape, const Strides& strides);

// A deleter for memory of others, to be run on any thread or dropped without having run: either way
// `keep` is dropped once, later, with the GIL.
std::function<void()> dropped_with_gil(std::shared_ptr<void> keep);

// An array in memory of others: elements at `data` with strides in elements, which may be negative.
// `keep` is dropped once nothing can touch the memory any more, with the GIL. None if the memory is
// not fit for it: no elements, elements that are not aligned, or a device that the host shares no
// memory with.
std::optional<Array> import_memory(const void* data, Dtype dtype, const Shape& shape,
                                   const Strides& strides, std::shared_ptr<void> keep,
                                   const On& on);

// An array with a copy of the host's elements at `data`, with strides in bytes. Needs the GIL, and
// releases it.
Array copy_memory(const void* data, Dtype dtype, const Shape& shape, const Strides& byte_strides,
                  const On& on);

// An array's elements as the host can read them, without a copy if the host can reach the device's
// memory. It keeps that memory. Holds no Python object, so that any thread may drop it.
class HostView {
 public:
  // Evaluates the array and waits for it. Call it without the GIL.
  HostView(const Array& array, const WaitLimit& limit);

  const std::byte* data() const noexcept { return data_; }
  const Shape& shape() const noexcept { return shape_; }
  const Strides& strides() const noexcept { return strides_; }  // in elements
  Dtype dtype() const noexcept { return dtype_; }
  bool copied() const noexcept { return !map_; }

 private:
  Dtype dtype_;
  Shape shape_;
  Strides strides_;
  std::optional<ArrayMap> map_;
  std::vector<std::byte> copy_;
  const std::byte* data_ = nullptr;
};

// The slots that make `array` export a buffer.
std::span<PyType_Slot> buffer_slots();

}  // namespace holdfast::python
