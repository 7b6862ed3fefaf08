#include "holdfast/base/bytes.h"

#include <fmt/format.h>

#include <array>

namespace holdfast {

std::string to_string(Bytes bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes.value < 1024) return fmt::format("{} B", bytes.value);
  double scaled = static_cast<double>(bytes.value) / 1024.0;
  size_t unit = 0;
  while (scaled >= 1024.0 && unit + 1 < units.size()) {
    scaled /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", scaled, units.at(unit));
}

std::pair<std::string, std::string> told_apart(Bytes a, Bytes b) {
  std::pair both{to_string(a), to_string(b)};
  if (a != b && both.first == both.second) {
    both = {fmt::format("{} B", a.value), fmt::format("{} B", b.value)};
  }
  return both;
}

}  // namespace holdfast
