#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace holdfast::stub_cuda {

// Reserved addresses, from which memory is cut and to which nothing returns: what is freed stays
// inaccessible until all of the arena is, so whoever uses it is stopped by the hardware.
class Arena {
 public:
  // Null where the system gives no addresses.
  static std::shared_ptr<Arena> reserve(size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null where there is no room left.
  std::byte* cut(size_t bytes);

 private:
  Arena(std::byte* begin, size_t bytes) : begin_(begin), bytes_(bytes) {}
  std::byte* begin_;
  size_t bytes_;
  size_t used_ = 0;
};

// Accessible memory of an arena, filled with a pattern where somebody might expect zeros; a page
// that nobody may touch lies behind it. Inaccessible again when it goes. Empty: none.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Takes from `current`, and replaces it by a fresh arena where it has no room. Empty where the
  // system has no memory.
  static Mapping make(std::shared_ptr<Arena>& current, size_t bytes);

  std::byte* begin() const noexcept { return begin_; }
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }

 private:
  std::shared_ptr<Arena> arena_;
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace holdfast::stub_cuda
