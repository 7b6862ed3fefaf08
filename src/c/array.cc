#include "holdfast/array.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/c/arguments.h"
#include "holdfast/eval.h"
#include "holdfast/npy.h"

namespace holdfast::c {
namespace {

// Memory of a caller, whose deleter is called once an array has it.
struct External {
  void (*deleter)(void*) = nullptr;
  void* context = nullptr;
  bool taken = false;
};

void copy_dims(const Dims& from, size_t capacity, int64_t* to, const char* name) {
  if (from.size() > capacity) {
    throw ArgumentError(fmt::format("there is room for {} numbers, and the array has {} axes",
                                    capacity, from.size()));
  }
  if (from.empty()) return;
  needed(to, name);
  std::copy(from.begin(), from.end(), to);
}

}  // namespace
}  // namespace holdfast::c

using namespace holdfast::c;
using holdfast::Array;
using holdfast::Shape;

hf_status hf_array_create(hf_dtype dtype, const int64_t* shape, size_t ndim, const void* data,
                          size_t size, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    const auto bytes = list_of(static_cast<const std::byte*>(data), size, "data");
    return Array(dtype_of(dtype), dims_of(shape, ndim, "shape"), bytes, {}, on_of(stream));
  });
}

hf_status hf_array_create_scalar(hf_scalar value, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    const holdfast::Scalar scalar = scalar_of(value);
    const auto bytes = std::as_bytes(std::span(&scalar.bits, 1));
    return Array(scalar.dtype, Shape{}, bytes.first(size_of(scalar.dtype).value), {},
                 on_of(stream));
  });
}

hf_status hf_array_from_external(void* data, hf_dtype dtype, const int64_t* shape, size_t ndim,
                                 void (*deleter)(void* context), void* context, hf_stream* stream,
                                 hf_array** array) {
  return give_array(__func__, array, [&] {
    if (data == nullptr) raise_null("data");
    const auto external = std::make_shared<External>(External{deleter, context});
    Array made = holdfast::from_external(
        data, dtype_of(dtype), dims_of(shape, ndim, "shape"),
        [external] {
          if (external->taken && external->deleter != nullptr) external->deleter(external->context);
        },
        {}, on_of(stream));
    external->taken = true;
    return made;
  });
}

hf_array* hf_array_retain(hf_array* array) { return retain(__func__, array); }
void hf_array_release(hf_array* array) { release(__func__, array); }

hf_status hf_array_dtype(hf_array* array, hf_dtype* dtype) {
  return call(__func__, [&] {
    needed(dtype, "dtype") = static_cast<hf_dtype>(value_of(array, "array").dtype());
  });
}

hf_status hf_array_ndim(hf_array* array, size_t* ndim) {
  return call(__func__, [&] { needed(ndim, "ndim") = value_of(array, "array").ndim(); });
}

hf_status hf_array_size(hf_array* array, int64_t* size) {
  return call(__func__, [&] { needed(size, "size") = value_of(array, "array").size(); });
}

hf_status hf_array_nbytes(hf_array* array, size_t* nbytes) {
  return call(__func__,
              [&] { needed(nbytes, "nbytes") = value_of(array, "array").nbytes().value; });
}

hf_status hf_array_shape(hf_array* array, size_t capacity, int64_t* shape) {
  return call(__func__,
              [&] { copy_dims(value_of(array, "array").shape(), capacity, shape, "shape"); });
}

hf_status hf_array_strides(hf_array* array, size_t capacity, int64_t* strides) {
  return call(__func__,
              [&] { copy_dims(value_of(array, "array").strides(), capacity, strides, "strides"); });
}

hf_status hf_array_is_row_contiguous(hf_array* array, int32_t* is) {
  return call(__func__,
              [&] { needed(is, "is") = value_of(array, "array").is_row_contiguous() ? 1 : 0; });
}

hf_status hf_array_stream(hf_array* array, hf_stream** stream) {
  return give(__func__, stream, [&] { return value_of(array, "array").stream(); });
}

hf_status hf_array_device(hf_array* array, hf_device** device) {
  return give(__func__, device, [&] { return value_of(array, "array").device(); });
}

hf_status hf_array_is_recorded(hf_array* array, int32_t* is) {
  return call(__func__, [&] { needed(is, "is") = value_of(array, "array").is_recorded() ? 1 : 0; });
}

hf_status hf_array_set_name(hf_array* array, hf_text name) {
  return call(__func__, [&] { value_of(array, "array").set_name(text_of(name, "name")); });
}

hf_status hf_array_name(hf_array* array, char** name) {
  return give_text(__func__, name, [&] { return value_of(array, "array").name(); });
}

hf_status hf_async_eval(hf_array* const* arrays, size_t count) {
  return call(__func__, [&] { holdfast::async_eval(arrays_of(arrays, count, "arrays")); });
}

hf_status hf_eval(hf_array* const* arrays, size_t count, hf_timeout timeout) {
  return call(__func__,
              [&] { holdfast::eval(arrays_of(arrays, count, "arrays"), limit_of(timeout)); });
}

hf_status hf_array_read(hf_array* array, hf_timeout timeout, void* data, size_t size) {
  return call(__func__, [&] {
    const Array& from = value_of(array, "array");
    if (size != 0 && data == nullptr) raise_null("data");
    if (size > PTRDIFF_MAX) raise_count(size, "data");
    from.copy_to({static_cast<std::byte*>(data), size}, limit_of(timeout));
  });
}

hf_status hf_array_item(hf_array* array, hf_timeout timeout, hf_scalar* value) {
  return call(__func__, [&] {
    const Array& from = value_of(array, "array");
    needed(value, "value");
    if (from.size() != 1) {
      throw holdfast::UsageError(fmt::format("item of an array of shape {}, which has {} elements",
                                             to_string(from.shape()), from.size()));
    }
    hf_scalar item{0, static_cast<hf_dtype>(from.dtype())};
    from.copy_to(std::as_writable_bytes(std::span(&item.bits, 1)).first(from.nbytes().value),
                 limit_of(timeout));
    *value = item;
  });
}

hf_status hf_array_to_text(hf_array* array, hf_timeout timeout, char** text) {
  return give_text(__func__, text, [&] {
    const Array& from = value_of(array, "array");
    return to_string(from.eval(limit_of(timeout)));
  });
}

hf_status hf_array_map(hf_array* array, hf_timeout timeout, hf_map** map) {
  return give(__func__, map, [&] { return value_of(array, "array").map(limit_of(timeout)); });
}

void hf_map_release(hf_map* map) { release(__func__, map); }

hf_status hf_map_bytes(hf_map* map, const void** data, size_t* size) {
  return call(__func__, [&] {
    const std::span<const std::byte> bytes = value_of(map, "map").bytes();
    needed(data, "data");
    needed(size, "size");
    *data = bytes.empty() ? nullptr : bytes.data();
    *size = bytes.size();
  });
}

hf_status hf_to_device(hf_array* array, hf_device* device, hf_array** moved) {
  return give_array(__func__, moved,
                    [&] { return value_of(array, "array").to(value_of(device, "device")); });
}

hf_status hf_load_npy(hf_text path, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::load_npy(text_of(path, "path"), on_of(stream)); });
}

hf_status hf_save_npy(hf_text path, hf_array* array, hf_timeout timeout) {
  return call(__func__, [&] {
    const Array& from = value_of(array, "array");
    const std::string to = text_of(path, "path");
    from.eval(limit_of(timeout));
    holdfast::save_npy(to, from);
  });
}
