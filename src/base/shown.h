#pragma once

#include <string>
#include <string_view>

namespace holdfast {

// A name that a user gave, as messages and logs show it: in single quotes, with \0, \n and other
// bytes that cannot be printed escaped, and cut behind `most` bytes, where the whole length
// follows. UTF-8 stays as it is. 'weights', 'a\0b', 'LLLL...' (1000000 bytes).
std::string shown(std::string_view name, size_t most = 64);

// The path of a source file as messages show it: from the last src/, tests/ or tools/ on; else the
// file's own name. Points into `path`.
std::string_view shown_path(std::string_view path);

}  // namespace holdfast
