#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/bytes.h"

namespace holdfast::env {

// Each reads the process environment at the call. An unset or empty variable is nullopt (or an
// empty list). A value that cannot be read raises EnvironmentError, which names the variable, what
// it holds and what it may hold.
std::optional<std::string> text(const char* name);
// 0 / 1 / off / on / false / true / no / yes.
std::optional<bool> flag(const char* name);
std::optional<uint64_t> number(const char* name);
// A number with an optional unit: 4096, 64KiB, 64K, 1.5GiB, 2G. Units are powers of 1024.
std::optional<Bytes> bytes(const char* name);
// One of `words`, in lower case there and in any case in the variable: its index.
std::optional<size_t> choice(const char* name, std::span<const std::string_view> words);
// Comma-separated, trimmed, empty items dropped.
std::vector<std::string> list(const char* name);

// The parser behind bytes(), for other sources of text; nullopt where it is no size.
std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace holdfast::env
