#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"

namespace holdfast {

// A file that is whole or not there: bytes under a key, with a checksum over both. For caches:
// losing one loses time only. Safe among processes.

enum class FileState {
  good,
  missing,
  damaged  // torn, truncated, foreign, flipped bits, or of another key
};
struct CheckedBytes {
  FileState state = FileState::missing;
  std::vector<std::byte> bytes;
};
// Never fails: what cannot be read is missing.
CheckedBytes read_checked_file(const std::filesystem::path& path, std::string_view key);
// Replaces the file in one step (a temporary name beside it, then a rename), makes folders that are
// missing, all private to the user. A failure (full or read-only disk) leaves the old file and no
// litter.
Failure write_checked_file(const std::filesystem::path& path, std::string_view key,
                           std::span<const std::byte> bytes);

// $HOLDFAST_CACHE_DIR, else $XDG_CACHE_HOME/holdfast, else ~/.cache/holdfast. Empty where
// HOLDFAST_DISK_CACHE=0 or none of these is known.
std::filesystem::path cache_folder();

}  // namespace holdfast
