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

// The slots that make `array` export a buffer.
std::span<PyType_Slot> buffer_slots();

}  // namespace holdfast::python
