#pragma once

#include <cstddef>
#include <span>

#include "holdfast/hal/allocation.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

class Context;

// Host access to a range, for a scope. While it lives, it is a user of the Allocation and keeps the
// Context alive. A binding that conflicts with the map raises a UsageError that names the map.
// Movable; belongs to one task at a time.
class Map {
 public:
  Map(Map&& other) noexcept;
  Map& operator=(Map&& other) noexcept;
  ~Map();

  // Exactly the mapped range.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  template <typename T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  friend class Stream;
  // The access is registered already.
  Map(Ref<Context> context, Ref<hal::Allocation> allocation, hal::AccessHistory::HostAccess access);
  void end() noexcept;

  Ref<Context> context_;
  Ref<hal::Allocation> allocation_;
  hal::AccessHistory::HostAccess access_;
  std::span<std::byte> bytes_;
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
