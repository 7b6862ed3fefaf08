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

// An array of numbers that may not have been computed yet: a result of a node, or a view of one. A
// value: copies are cheap (two counts) and show the same elements, which never change. Nothing is
// computed before somebody evaluates it. Distinct Arrays, also copies of each other, may be used
// from distinct threads; one Array may not be written by two threads at once.
//
// Dropping the last Array that can reach a result frees its memory as soon as no recorded work
// needs it. Each function that touches elements (eval, item, to_vector, map, printing) raises the
// error of the node that failed to make them.
class Array {
 public:
  // No array: everything but assignment, destruction and has_value() raises UsageError.
  Array() noexcept = default;
  // A scalar, of shape ().
  template <Element T>
  explicit Array(T value, const On& on = {})
      : Array(DtypeOf<T>::value, Shape{}, std::as_bytes(std::span(&value, 1)), {}, on) {}
  // Copies of host data, owned before the call returns. UsageError where the counts differ.
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
  // Raw bytes of that dtype, row-major.
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
  // Where the elements lie in the memory of the result that this is or shows.
  Layout layout() const;
  bool is_row_contiguous() const { return !view_ || view_->layout.is_row_contiguous(); }
  Stream stream() const;
  Device device() const;

  // The user's label; it reaches errors and reports. May be empty.
  std::string name() const;
  // Names the result, once; later names are ignored. Thread-safe. Views share the name.
  const Array& set_name(std::string name) const;

  // Whether its node was recorded already (it may still run), or has failed.
  bool is_recorded() const;

  // The elements, on another device; the array itself where it is there already. A node like any
  // other, on the current stream where that is one of the device's, else on its default stream:
  // evaluating it moves the elements without blocking the host. What fails on the way reaches
  // whoever reads the result. Dropping the source, or giving its memory to another node, is safe at
  // any time. Of a view that is not row-contiguous, a copy is made on the source first.
  Array to(const Device& device) const;

  // Records, submits, and waits for this array alone.
  const Array& eval(const WaitLimit& limit = {}) const;

  // The one element of an array of size one. UsageError where size or dtype differ: astype first.
  template <Element T>
  T item(const WaitLimit& limit = {}) const {
    T value{};
    read(DtypeOf<T>::value, "item", 1, std::as_writable_bytes(std::span(&value, 1)), limit);
    return value;
  }
  // The elements in row-major order. UsageError where the dtype differs.
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
  // The elements in row-major order, in the memory of the device itself. See ArrayMap.
  ArrayMap map(const WaitLimit& limit = {}) const;

  // For the other parts of this layer, and for those who write their own.
  Array(Ref<array::Value> value, Ref<const array::View> view = {}) noexcept
      : value_(std::move(value)), view_(std::move(view)) {}
  // The same result through another layout; it must lie in its memory.
  Array with_layout(const Layout& layout) const;
  // Null where there is none. Only Arrays protect its memory from becoming another result's.
  const Ref<array::Value>& value() const noexcept { return value_; }
  const Ref<const array::View>& view() const noexcept { return view_; }

 private:
  // UsageError where there is no array.
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

// Host access to the elements of an array, for reading, for a scope; it keeps the array's memory as
// any other user does. Of an array that is not row-contiguous it shows a copy that is. UsageError
// where the host does not reach the device's memory: use to_vector. Movable; belongs to one task.
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
  // They would show what is gone.
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

// Evaluates, then as people expect: array([[1, 2], [3, 4]], dtype=float32). Large arrays are
// abbreviated.
std::string to_string(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);

// Memory of the caller's, used in place by the device: row-contiguous elements of that dtype, at an
// address that is a multiple of an element's size (UsageError elsewhere). The caller must not write
// to it before the deleter runs, which is once, when nothing can touch the memory any more; also
// when the import is refused. The deleter runs on any thread and must not evaluate arrays; what it
// throws is logged (topic memory) and goes no further. Never written by us.
Array from_external(void* data, Dtype dtype, const Shape& shape, std::function<void()> deleter,
                    std::string name = {}, const On& on = {});

// array.to(device).
Array to_device(const Array& array, const Device& device);

}  // namespace holdfast

#pragma GCC visibility pop
