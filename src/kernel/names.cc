#include "holdfast/kernel/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

// Of C++, of Metal, and of what both targets make of them.
constexpr auto kKeywords = std::to_array<std::string_view>({
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
    // Metal's, and its types.
    "device",
    "constant",
    "thread",
    "threadgroup",
    "kernel",
    "vertex",
    "fragment",
    "metal",
    "precise",
    "fast",
    "half",
    "bfloat",
    "uint",
    "uchar",
    "ushort",
    "ulong",
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "float16_t",
    "bfloat16_t",
    "atomic",
    "atomic_int",
    "atomic_uint",
    "atomic_bool",
    "atomic_float",
    "atomic_ulong",
    "mem_flags",
    "memory_order",
    "as_type",
    "elem_to_loc",
    "vec",
    "numeric_limits",
    "simd_vote",
    "threadgroup_barrier",
    "simdgroup_barrier",
    // Macros of the preambles.
    "assert",
    "printf",
    "METAL_FUNC",
    "INFINITY",
    "NAN",
    "HUGE_VALF",
    "MAXFLOAT",
    "FLT_MAX",
    "FLT_MIN",
    "FLT_EPSILON",
    "HALF_MAX",
    "HALF_MIN",
    "HALF_EPSILON",
    "M_E_F",
    "M_LOG2E_F",
    "M_LOG10E_F",
    "M_LN2_F",
    "M_LN10_F",
    "M_PI_F",
    "M_PI_2_F",
    "M_PI_4_F",
    "M_1_PI_F",
    "M_2_PI_F",
    "M_SQRT2_F",
    "M_SQRT1_2_F",
    "CHAR_MAX",
    "CHAR_MIN",
    "UCHAR_MAX",
    "SHRT_MAX",
    "SHRT_MIN",
    "USHRT_MAX",
    "INT_MAX",
    "INT_MIN",
    "UINT_MAX",
    "LONG_MAX",
    "LONG_MIN",
    "ULONG_MAX",
    // What compilers define themselves, also in strict modes of some.
    "linux",
    "unix",
    "i386",
    "defined",
});

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_reserved(std::string_view name) {
  if (name.starts_with("hf_") || name.starts_with("__")) return true;
  // C++ keeps these for compilers, whose headers define some as macros.
  if (name.size() >= 2 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z') return true;
  if (std::ranges::find(kKeywords, name) != kKeywords.end() || is_vector_type(name)) return true;
  return std::ranges::any_of(places(), [&](const Place& place) { return place.name == name; });
}

std::optional<std::string> why_not_a_name(std::string_view name) {
  if (name.empty()) return "the name is empty";
  if (!is_identifier(name)) {
    return "is no identifier: use letters, digits and underscores, and no digit at the front";
  }
  if (name.starts_with("hf_")) return "names that begin with hf_ are Holdfast's own; rename it";
  if (is_reserved(name)) return "is reserved in kernel text; rename it";
  return std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t edits = std::min<size_t>(3, name.size() / 2 + 1);
  for (const std::string_view other : known) {
    // Also bounds the time that a long name takes.
    if (name.size() > 64 || other.size() > 64) continue;
    if (name != other && lower(name) == lower(other))
      return fmt::format("; did you mean '{}'?", other);
    const size_t distance = edits_between(name, other);
    if (distance > 0 && distance < edits) {
      edits = distance;
      best = other;
    }
  }
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace holdfast::kernel
