#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "holdfast/kernel/signature.h"

#pragma GCC visibility push(default)

namespace holdfast {

// A few integers, stored without the heap: the lengths, strides or axes of an array. UsageError
// beyond kMaxDims of them.
class Dims {
 public:
  static constexpr size_t kMaxDims = kernel::kMaxRank;

  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values) {
    check_size(values.size());
    for (const int64_t v : values) values_[size_++] = v;
  }
  static Dims filled(size_t size, int64_t value) {
    check_size(size);
    Dims d;
    for (; d.size_ < size; ++d.size_) d.values_[d.size_] = value;
    return d;
  }

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  int64_t operator[](size_t i) const noexcept { return values_[i]; }
  int64_t& operator[](size_t i) noexcept { return values_[i]; }
  int64_t back() const noexcept { return values_[size_ - 1]; }
  void push_back(int64_t value) {
    check_size(size_ + size_t{1});
    values_[size_++] = value;
  }
  const int64_t* begin() const noexcept { return values_.data(); }
  const int64_t* end() const noexcept { return values_.data() + size_; }
  const int64_t* data() const noexcept { return values_.data(); }
  std::span<const int64_t> span() const noexcept { return {values_.data(), size_}; }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }

 private:
  // UsageError if there are too many.
  static void check_size(size_t size) {
    if (size > kMaxDims) raise_too_many(size);
  }
  [[noreturn]] static void raise_too_many(size_t size);

  std::array<int64_t, kMaxDims> values_;
  uint8_t size_ = 0;
};
using Shape = Dims;
using Strides = Dims;
inline constexpr int64_t kMaxLength = 0x7fffffff;  // of one axis

// "(32, 768)", "(3,)", "()".
std::string to_string(const Dims& dims);

// The product of the lengths. UsageError if one is negative or above kMaxLength, or if the product
// is larger than any memory.
int64_t elements(const Shape& shape);

}  // namespace holdfast

#pragma GCC visibility pop
