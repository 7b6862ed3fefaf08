#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::kernel {

// A part of Metal's language that kernels cannot use here.
struct Unsupported {
  std::string name;      // as the text has it
  std::string sentence;  // "not supported: textures; pass the elements as an array and index it"
};

// The first one in a line that does not compile and that the compiler complains of, too, in its own
// words; none if it complains of something else. So authors may use such names for what is theirs.
std::optional<Unsupported> unsupported_in(std::string_view line, std::string_view words);

}  // namespace holdfast::kernel
