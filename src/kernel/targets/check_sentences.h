#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::kernel {

// What a kernel is told that fails a check of its own, on every device in the same words.

// A place in the author's text.
struct CheckPlace {
  std::string_view kernel;
  std::string_view file;
  uint32_t line = 0;
};
std::string out_of_bounds_sentence(const CheckPlace& at, int64_t index, std::string_view buffer,
                                   uint64_t size);
std::string assertion_sentence(const CheckPlace& at, std::string_view expression);

}  // namespace holdfast::kernel
