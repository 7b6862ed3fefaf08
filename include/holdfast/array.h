#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/dtypes.h"
#include "holdfast/layout.h"
#include "holdfast/stream.h"
#include "holdfast/value.h"

#pragma GCC visibility push(default)

namespace holdfast {

class ArrayMap;
namespace runtime {
class Map;
}

// A lazy array of numbers: a result of a node, or a view of one. An Array is a value: copies are
// cheap (two counts) and share the same elements, which never change. Nothing is computed until the
// array is evaluated. Distinct Arrays, including copies of each other, may be used from distinct
// threads; one Array object must not be written by two threads at once.
//
// Dropping the last Array that can reach a result frees its memory as soon as no recorded work
// needs it. Every function that touches elements (eval, item, to_vector, map, printing) raises the
// error of the node that failed to compute them.
class Array {
 public:
  // An empty Array: every call except assignment, destruction and has_value() raises UsageError.
  Array() noexcept = default;
  // A scalar, of shape ().
  template <Element T>
  explicit Array(T value, const On& on = {})
      : Array(DtypeOf<T>::value, Shape{}, std::as_bytes(std::span(&value, 1)), {}, on) {}
  // Copies host data before the call returns. UsageError if the counts differ.
  template <Element T>
  Array(std::span<const T> values, const Shape& shape, std::string name = {}, const On& on = {})
      : Array(DtypeOf<T>::value, shape, std::as_bytes(values), std::move(name), on) {}
  template <Element T>
    requires(!std::same_as<T, bool>)
  Array(const std::vector<T>& values, const Shape& shape, std::string name = {}, const On& on = {})
      : Array(std::span<const T>(values), shape, std::move(name), on) {}
  template <Element T>
    requires(!std::same_as<T, bool>)
  explicit Array(const std::vector<T>& values)
      : Array(values, Shape{static_cast<int64_t>(values.size())}) {}
  template <Element T>
  Array(std::initializer_list<T> values, const Shape& shape, std::string name = {},
        const On& on = {})
      : Array(std::span<const T>(values.begin(), values.size()), shape, std::move(name), on) {}
  // Raw bytes: elements of `dtype` in row-major order.
  Array(Dtype dtype, const Shape& shape, std::span<const std::byte> bytes, std::string name = {},
        const On& on = {});

  bool has_value() const noexcept { return static_cast<bool>(value_); }
  Dtype dtype() const { return checked().dtype(); }
  const Shape& shape() const { return view_ ? view_->layout.shape : checked().shape(); }
  int64_t shape(int64_t axis) const;                    // negative: from the end
  Strides strides() const { return layout().strides; }  // in elements
  size_t ndim() const { return shape().size(); }
  int64_t size() const { return elements(shape()); }
  Bytes nbytes() const { return size_of(dtype()) * static_cast<uint64_t>(size()); }
  // Where the elements lie in the memory of the underlying result.
  Layout layout() const;
  bool is_row_contiguous() const { return !view_ || view_->layout.is_row_contiguous(); }
  Stream stream() const;
  Device device() const;

  // The user's label; it reaches errors and reports. May be empty.
  std::string name() const;
  // Names the result, once; later names are ignored. Thread-safe. Views share the name.
  const Array& set_name(std::string name) const;

  // Whether the node has been recorded (its work may still be running) or has failed.
  bool is_recorded() const;

  // The same elements on another device; this array itself if it is already there. The result is a
  // node like any other. It goes to the current stream if that belongs to `device`, otherwise to
  // the default stream of `device`. Evaluating it moves the elements without blocking the host. A
  // failure on the way reaches whoever reads the result. Dropping the source, or giving its memory
  // to another node, is safe at any time. A view that is not row-contiguous is first copied on the
  // source device.
  Array to(const Device& device) const;

  // Records, submits, and waits for this array alone.
  const Array& eval(const WaitLimit& limit = {}) const;

  // The element of an array of size one. UsageError for another size or dtype; convert with astype.
  template <Element T>
  T item(const WaitLimit& limit = {}) const {
    T value{};
    read(DtypeOf<T>::value, "item", 1, std::as_writable_bytes(std::span(&value, 1)), limit);
    return value;
  }
  // The elements in row-major order. UsageError if the dtype differs.
  template <Element T>
  std::vector<T> to_vector(const WaitLimit& limit = {}) const {
    if constexpr (std::same_as<T, bool>) {
      std::vector<uint8_t> bytes(static_cast<size_t>(size()));
      read(Dtype::bool_, "to_vector", -1, std::as_writable_bytes(std::span(bytes)), limit);
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<T> values(static_cast<size_t>(size()));
      read(DtypeOf<T>::value, "to_vector", -1, std::as_writable_bytes(std::span(values)), limit);
      return values;
    }
  }
  // The bytes of the elements in row-major order, whatever their dtype. UsageError if `to` is not
  // nbytes() long.
  void copy_to(std::span<std::byte> to, const WaitLimit& limit = {}) const;
  // The elements in row-major order, in the memory of the device itself. See ArrayMap.
  ArrayMap map(const WaitLimit& limit = {}) const;

  // For the rest of this layer and for code that extends it.
  Array(Ref<array::Value> value, Ref<const array::View> view = {}) noexcept
      : value_(std::move(value)), view_(std::move(view)) {}
  // The same result through another layout, which must stay inside the result's memory.
  Array with_layout(const Layout& layout) const;
  // Null for an empty Array. Only Arrays keep the memory from being reused for another result.
  const Ref<array::Value>& value() const noexcept { return value_; }
  const Ref<const array::View>& view() const noexcept { return view_; }

 private:
  // UsageError for an empty Array.
  const array::Value& checked() const {
    if (!value_) raise_empty();
    return *value_;
  }
  [[noreturn]] static void raise_empty();
  // `count` -1: any size.
  void read(Dtype dtype, const char* what, int64_t count, std::span<std::byte> to,
            const WaitLimit& limit) const;

  Ref<array::Value> value_;
  Ref<const array::View> view_;  // null: the whole result, row-contiguous
};

// Read access from the host to the elements of an array, for a scope. It keeps the array's memory
// alive like any other user. An array that is not row-contiguous is shown as a row-contiguous copy.
// UsageError if the host cannot reach the device's memory: use to_vector. Movable; belongs to one
// task.
class ArrayMap {
 public:
  ArrayMap(ArrayMap&&) noexcept;
  ArrayMap& operator=(ArrayMap&&) noexcept;
  ~ArrayMap();

  template <Element T>
  std::span<const T> values() const& {
    check(DtypeOf<T>::value);
    const std::span<const std::byte> all = bytes();
    return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
  }
  std::span<const std::byte> bytes() const& noexcept;
  // Deleted: the span would outlive the map.
  template <Element T>
  std::span<const T> values() const&& = delete;
  std::span<const std::byte> bytes() const&& = delete;

 private:
  friend class Array;
  ArrayMap(Array array, std::unique_ptr<runtime::Map> map) noexcept;
  void check(Dtype dtype) const;
  Array array_;
  std::unique_ptr<runtime::Map> map_;  // none where there are no elements
};

// Evaluates the array and formats it: array([[1, 2], [3, 4]], dtype=float32). Large arrays are
// abbreviated.
std::string to_string(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);

// Uses the caller's memory in place: row-contiguous elements of `dtype`, at an address that is a
// multiple of an element's size (otherwise UsageError). Holdfast never writes to it, and the caller
// must not write to it before the deleter runs. The deleter runs once: when nothing can touch the
// memory any more, or when the import is refused. It runs on any thread and must not evaluate
// arrays; what it throws is logged (topic memory) and goes no further.
Array from_external(void* data, Dtype dtype, const Shape& shape, std::function<void()> deleter,
                    std::string name = {}, const On& on = {});

// Same as array.to(device).
Array to_device(const Array& array, const Device& device);

}  // namespace holdfast

#pragma GCC visibility pop
