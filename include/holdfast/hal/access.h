#pragma once

#pragma GCC visibility push(default)

namespace holdfast::hal {

// What a command does to a bound range.
enum class Access : unsigned char {
  read = 1,
  write = 2,      // every byte of the range; what was there before is not needed
  read_write = 3  // in place, or a write that may leave bytes of the range as they were
};
constexpr bool reads(Access a) { return (static_cast<unsigned>(a) & 1U) != 0; }
constexpr bool writes(Access a) { return (static_cast<unsigned>(a) & 2U) != 0; }
const char* to_string(Access access);

}  // namespace holdfast::hal

#pragma GCC visibility pop
