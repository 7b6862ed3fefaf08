#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
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
// The same for a file that is open, from its beginning.
CheckedBytes read_checked_file(int descriptor, std::string_view key);
// Replaces the file in one step (a temporary name beside it, then a rename), makes folders that are
// missing, all private to the user. A failure (full or read-only disk) leaves the old file and no
// litter.
Failure write_checked_file(const std::filesystem::path& path, std::string_view key,
                           std::span<const std::byte> bytes);
// The same for a name in an open folder. `path` is what messages call it.
Failure write_checked_file(int folder, const std::string& name, const std::filesystem::path& path,
                           std::string_view key, std::span<const std::byte> bytes);
// As mkdir -p, with new folders that only the user can enter.
Failure make_private_folder(const std::filesystem::path& path);
// Whether a file of that name is one that a write left behind because its process was killed, or
// one that a write makes at this moment.
bool is_temporary_name(std::string_view name);

// $HOLDFAST_CACHE_DIR, else $XDG_CACHE_HOME/holdfast, else ~/.cache/holdfast. Empty where
// HOLDFAST_DISK_CACHE=0 or none of these is known.
std::filesystem::path cache_folder();

}  // namespace holdfast
