#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>

#pragma GCC visibility push(default)

namespace holdfast {

// A 64-bit identity that is never reused within a process; zero is nobody. The Tag keeps the ids
// of different things from being compared with each other.
template <typename Tag>
struct Id {
  uint64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;

  // Thread-safe; one relaxed increment.
  static Id next() noexcept { return next_many(1); }
  // The last of that many, which all are the caller's.
  static Id next_many(uint64_t count) noexcept {
    static std::atomic<uint64_t> last{0};
    return Id{last.fetch_add(count, std::memory_order_relaxed) + count};
  }
};

}  // namespace holdfast

template <typename Tag>
struct std::hash<holdfast::Id<Tag>> {
  size_t operator()(const holdfast::Id<Tag>& id) const noexcept {
    return std::hash<uint64_t>{}(id.value);
  }
};

#pragma GCC visibility pop
