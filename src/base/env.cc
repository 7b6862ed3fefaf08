#include "holdfast/base/env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "holdfast/base/error.h"

namespace holdfast::env {
namespace {

std::string_view trimmed(std::string_view s) {
  const auto first = s.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

std::string lowered(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

[[noreturn]] void refuse(const char* name, const std::string& held, std::string_view wanted) {
  throw EnvironmentError(
      fmt::format("the variable {} holds '{}'; it may hold {}", name, held, wanted));
}

}  // namespace

std::optional<std::string> text(const char* name) {
  const char* held = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here calls setenv
  if (held == nullptr || *held == '\0') return std::nullopt;
  return std::string(held);
}

std::optional<bool> flag(const char* name) {
  const auto held = text(name);
  if (!held) return std::nullopt;
  const std::string word = lowered(trimmed(*held));
  if (word == "1" || word == "on" || word == "true" || word == "yes") return true;
  if (word == "0" || word == "off" || word == "false" || word == "no") return false;
  refuse(name, *held, "0 or 1");
}

std::optional<uint64_t> number(const char* name) {
  const auto held = text(name);
  if (!held) return std::nullopt;
  const std::string_view word = trimmed(*held);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    refuse(name, *held, "a whole number");
  }
  return value;
}

std::optional<Bytes> parse_bytes(std::string_view source) {
  const std::string word = lowered(trimmed(source));
  const char* const last = word.data() + word.size();
  // Whole numbers are read as such: a double cannot name every byte of a large size.
  uint64_t whole = 0;
  const auto as_whole = std::from_chars(word.data(), last, whole);
  double count = 0;
  const auto as_double = std::from_chars(word.data(), last, count);
  if (as_double.ec != std::errc() || !(count >= 0)) return std::nullopt;
  const std::string_view unit =
      trimmed(std::string_view(as_double.ptr, static_cast<size_t>(last - as_double.ptr)));
  uint64_t scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  if (unit == "k" || unit == "kb" || unit == "kib") scale = uint64_t{1} << 10;
  if (unit == "m" || unit == "mb" || unit == "mib") scale = uint64_t{1} << 20;
  if (unit == "g" || unit == "gb" || unit == "gib") scale = uint64_t{1} << 30;
  if (unit == "t" || unit == "tb" || unit == "tib") scale = uint64_t{1} << 40;
  const double total = count * static_cast<double>(scale);
  if (scale == 0 || !(total < 0x1p63)) return std::nullopt;
  if (as_whole.ec == std::errc() && as_whole.ptr == as_double.ptr) return Bytes{whole * scale};
  return Bytes{static_cast<uint64_t>(std::floor(total))};
}

std::optional<Bytes> bytes(const char* name) {
  const auto held = text(name);
  if (!held) return std::nullopt;
  const auto parsed = parse_bytes(*held);
  if (!parsed) refuse(name, *held, "a size such as 4096, 64KiB or 1.5GiB");
  return parsed;
}

std::optional<size_t> choice(const char* name, std::span<const std::string_view> words) {
  const auto held = text(name);
  if (!held) return std::nullopt;
  const auto found = std::ranges::find(words, lowered(trimmed(*held)));
  if (found == words.end()) refuse(name, *held, fmt::format("{}", fmt::join(words, " or ")));
  return static_cast<size_t>(found - words.begin());
}

std::vector<std::string> list(const char* name) {
  std::vector<std::string> items;
  const auto held = text(name);
  if (!held) return items;
  std::string_view rest = *held;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    if (!item.empty()) items.emplace_back(item);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return items;
}

}  // namespace holdfast::env
