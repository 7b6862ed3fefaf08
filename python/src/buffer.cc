#include "python/src/buffer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "holdfast/creation.h"
#include "holdfast/hal/device.h"
#include "holdfast/host_view.h"
#include "holdfast/runtime/context.h"
#include "holdfast/views.h"

namespace holdfast::python {
namespace {

// The struct module's letter for a dtype; null for bfloat16, which has none.
const char* format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_: return "?";
    case Dtype::int8: return "b";
    case Dtype::uint8: return "B";
    case Dtype::int16: return "h";
    case Dtype::uint16: return "H";
    case Dtype::int32: return "i";
    case Dtype::uint32: return "I";
    case Dtype::int64: return "l";
    case Dtype::uint64: return "L";
    case Dtype::float16: return "e";
    case Dtype::bfloat16: return nullptr;
    case Dtype::float32: return "f";
    case Dtype::float64: return "d";
  }
  return nullptr;
}
static_assert(sizeof(long) == sizeof(int64_t));

std::optional<Dtype> integer_dtype(Py_ssize_t size, bool is_signed) {
  switch (size) {
    case 1: return is_signed ? Dtype::int8 : Dtype::uint8;
    case 2: return is_signed ? Dtype::int16 : Dtype::uint16;
    case 4: return is_signed ? Dtype::int32 : Dtype::uint32;
    case 8: return is_signed ? Dtype::int64 : Dtype::uint64;
    default: return {};
  }
}

std::optional<Dtype> dtype_of_format(const char* format, Py_ssize_t size) {
  std::string_view text = format != nullptr ? format : "B";
  if (!text.empty() && std::string_view("@=<").find(text[0]) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  if (text.size() != 1) return {};
  switch (text[0]) {
    case '?': return Dtype::bool_;
    case 'e': return Dtype::float16;
    case 'f': return Dtype::float32;
    case 'd': return Dtype::float64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return integer_dtype(size, true);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return integer_dtype(size, false);
    default: return {};
  }
}

// Appends the elements below `data` in row-major order.
void gather(std::byte*& to, const std::byte* data, std::span<const int64_t> shape,
            std::span<const int64_t> strides, size_t size) {
  if (shape.empty()) {
    std::memcpy(to, data, size);
    to += size;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i) {
    gather(to, data + i * strides[0], shape.subspan(1), strides.subspan(1), size);
  }
}

// Whether strides in bytes are strides in elements, too.
bool whole(const Strides& byte_strides, size_t size) {
  return std::all_of(byte_strides.begin(), byte_strides.end(),
                     [&](int64_t stride) { return stride % static_cast<int64_t>(size) == 0; });
}

bool host_can_reach(const Device& device) {
  return device.context()->device()->info().device_memory_host_visible;
}

// What an exported Py_buffer keeps.
struct Exported {
  HostView view;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;  // in bytes
};

void fill_buffer(Py_buffer& to, PyObject* self, const Array& array, int flags) {
  const char* const format = format_of(array.dtype());
  if (format == nullptr) {
    throw nb::buffer_error("bfloat16 has no buffer format; use astype(hf.float32) first");
  }
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
    throw nb::buffer_error("arrays never change: their memory can only be read");
  }
  const bool contiguous_only = (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  auto made = std::make_unique<Exported>(without_gil([&](const WaitLimit& limit) {
    const Array shown = contiguous_only && !array.is_row_contiguous() ? contiguous(array) : array;
    return Exported{HostView(shown, limit), {}, {}};
  }));
  const auto size = static_cast<Py_ssize_t>(size_of(array.dtype()).value);
  made->shape.assign(made->view.shape().begin(), made->view.shape().end());
  for (const int64_t stride : made->view.strides()) made->strides.push_back(stride * size);
  to.buf = const_cast<std::byte*>(made->view.data());
  to.obj = nb::borrow(self).release().ptr();
  to.len = static_cast<Py_ssize_t>(array.nbytes().value);
  to.readonly = 1;
  to.itemsize = size;
  to.format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  to.ndim = static_cast<int>(made->shape.size());
  to.shape = (flags & PyBUF_ND) == PyBUF_ND ? made->shape.data() : nullptr;
  to.strides = contiguous_only ? nullptr : made->strides.data();
  to.suboffsets = nullptr;
  to.internal = made.release();
}

int get_buffer(PyObject* self, Py_buffer* to, int flags) {
  to->obj = nullptr;
  try {
    const Array* const array = array_in(self);
    if (array == nullptr) throw nb::buffer_error("the array's __init__ was not called");
    const Array held = *array;  // another thread may assign to the object meanwhile
    fill_buffer(*to, self, held, flags);
    return 0;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

void release_buffer(PyObject*, Py_buffer* view) {
  const std::unique_ptr<Exported> done(static_cast<Exported*>(view->internal));
}

// An array with a copy of the host's elements at `data`, with strides in bytes. Needs the GIL, and
// releases it.
Array copy_memory(const void* data, Dtype dtype, const Shape& shape, const Strides& byte_strides,
                  const On& on) {
  const auto* first = static_cast<const std::byte*>(data);
  const size_t size = size_of(dtype).value;
  Layout layout{shape, byte_strides, 0};
  for (size_t i = 0; i < shape.size(); ++i) layout.strides[i] /= static_cast<int64_t>(size);
  const bool in_rows = layout.is_row_contiguous() && whole(byte_strides, size);
  const size_t bytes = static_cast<size_t>(elements(shape)) * size;
  return without_gil([&](const WaitLimit&) {
    if (in_rows) return Array(dtype, shape, std::span(first, bytes), {}, on);
    std::vector<std::byte> rows(bytes);
    std::byte* to = rows.data();
    gather(to, first, shape.span(), byte_strides.span(), size);
    return Array(dtype, shape, rows, {}, on);
  });
}

// The elements that a shape with strides (in elements, which may be negative) reaches: how many lie
// between the first and the last, and the layout as seen from the first.
struct Reached {
  Layout layout;
  int64_t count = 0;
};
Reached reached_by(const Shape& shape, const Strides& strides) {
  Reached made{{shape, strides, 0}, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    // An array's layout has no negative stride on an axis of length one.
    if (shape[i] == 1) made.layout.strides[i] = std::abs(strides[i]);
    const int64_t reach = (shape[i] - 1) * strides[i];
    if (reach < 0) made.layout.offset -= reach;
    made.count += std::abs(reach);
  }
  return made;
}

// A deleter for memory of others, to be run on any thread or dropped without having run: either way
// `keep` is dropped once, later, with the GIL.
std::function<void()> dropped_with_gil(std::shared_ptr<void> keep) {
  std::shared_ptr<void> later(nullptr, [kept = std::move(keep)](void*) mutable {
    run_with_gil_later([dropped = std::move(kept)]() mutable { dropped.reset(); });
  });
  return [held = std::move(later)]() mutable { held.reset(); };
}

// An array in memory of others: elements at `data` with strides in elements, which may be negative.
// `keep` is dropped once nothing can touch the memory any more, with the GIL. None if the memory is
// not fit for it: no elements, elements that are not aligned, or a device that the host shares no
// memory with.
std::optional<Array> import_memory(const void* data, Dtype dtype, const Shape& shape,
                                   const Strides& strides, std::shared_ptr<void> keep,
                                   const On& on) {
  const auto size = static_cast<int64_t>(size_of(dtype).value);
  if (elements(shape) == 0 || reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(size) != 0) {
    return {};
  }
  // Where `on` leads to is known once there is a node.
  if (!host_can_reach(zeros({}, dtype, on).device())) return {};
  const Reached reached = reached_by(shape, strides);
  if (reached.count > kMaxLength) return {};
  auto* const first =
      const_cast<std::byte*>(static_cast<const std::byte*>(data)) - reached.layout.offset * size;
  const Array whole = without_gil([&](const WaitLimit&) {
    return from_external(first, dtype, Shape{reached.count}, dropped_with_gil(std::move(keep)), {},
                         on);
  });
  return whole.with_layout(reached.layout);
}

}  // namespace

ImportedBuffer::ImportedBuffer(nb::handle exporter) {
  if (PyObject_GetBuffer(exporter.ptr(), &view_, PyBUF_FULL_RO) != 0) throw nb::python_error();
  const std::optional<Dtype> dtype = dtype_of_format(view_.format, view_.itemsize);
  if (!dtype || view_.suboffsets != nullptr) {
    const std::string format = view_.format != nullptr ? view_.format : "B";
    PyBuffer_Release(&view_);
    throw nb::type_error(("no dtype has elements of the format '" + format + "'").c_str());
  }
  dtype_ = *dtype;
  int64_t stride = view_.itemsize;
  const auto ndim = static_cast<size_t>(view_.ndim);
  if (ndim > Dims::kMaxDims) {
    PyBuffer_Release(&view_);
    throw nb::value_error("an array has at most 8 axes");
  }
  shape_ = strides_ = Shape::filled(ndim, 0);
  for (size_t i = strides_.size(); i-- > 0;) {
    shape_[i] = view_.shape[i];
    strides_[i] = view_.strides != nullptr ? view_.strides[i] : stride;
    stride *= shape_[i];
  }
}

ImportedBuffer::~ImportedBuffer() { PyBuffer_Release(&view_); }

Array ImportedBuffer::copied(const On& on) const {
  return copy_memory(data(), dtype_, shape_, strides_, on);
}

std::optional<Array> ImportedBuffer::shared(const std::shared_ptr<ImportedBuffer>& buffer,
                                            const On& on) {
  Strides strides = buffer->strides_;
  if (!whole(strides, size_of(buffer->dtype_).value)) return {};
  for (size_t i = 0; i < strides.size(); ++i) strides[i] /= buffer->view_.itemsize;
  return import_memory(buffer->data(), buffer->dtype_, buffer->shape_, strides, buffer, on);
}

std::span<PyType_Slot> buffer_slots() {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
      {0, nullptr},
  };
  return slots;
}

}  // namespace holdfast::python
