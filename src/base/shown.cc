#include "holdfast/base/shown.h"

#include <fmt/format.h>

#include <iterator>

namespace holdfast {
namespace {

// Bytes of the UTF-8 character that the text begins with; 0 where it begins with none.
size_t character_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  return length;
}

void append_escaped(std::string& to, char c) {
  switch (c) {
    case '\0': to += "\\0"; return;
    case '\n': to += "\\n"; return;
    case '\r': to += "\\r"; return;
    case '\t': to += "\\t"; return;
    default: break;
  }
  fmt::format_to(std::back_inserter(to), "\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

std::string shown(std::string_view name, size_t most) {
  std::string text = "'";
  std::string_view rest = name;
  while (!rest.empty()) {
    const size_t length = character_of(rest);
    if (name.size() - rest.size() + (length == 0 ? 1 : length) > most) break;
    const bool control = rest[0] >= 0 && (rest[0] < ' ' || rest[0] == 0x7f);
    if (length == 0 || control) {
      append_escaped(text, rest[0]);
      rest.remove_prefix(1);
    } else {
      text += rest.substr(0, length);
      rest.remove_prefix(length);
    }
  }
  return rest.empty() ? text + "'" : fmt::format("{}...' ({} bytes)", text, name.size());
}

std::string_view shown_path(std::string_view path) {
  size_t from = std::string_view::npos;
  for (const std::string_view folder : {"src/", "tests/", "tools/"}) {
    const size_t at = path.rfind(folder);
    const bool is_component = at == 0 || (at != std::string_view::npos && path[at - 1] == '/');
    if (is_component && (from == std::string_view::npos || at > from)) from = at;
  }
  if (from == std::string_view::npos) from = path.rfind('/') + 1;
  return path.substr(from);
}

}  // namespace holdfast
