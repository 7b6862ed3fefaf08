#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/unique_fd.h"

namespace holdfast::kernel {

// A folder of executable code, as DiskCache needs it: entries are folder/XX/REST, where XX are two
// hexadecimal digits and REST is more of them. Everything below the folder is reached through open
// descriptors, and no link below it is followed.

enum class Trust {
  good,
  missing,
  foreign  // somebody else owns it or can write to it
};

struct Opened {
  Trust trust = Trust::missing;
  hal::UniqueFd descriptor{};
};
// A folder; where `make` says so it is made first, private to the user.
Opened open_folder(const std::filesystem::path& path, bool make);
Opened open_folder_in(int folder, const std::string& name, bool make);
// A file, for reading. What is no plain file is foreign.
Opened open_file_in(int folder, const std::string& name);
// What the last one says to people: "it is writable by others (mode 0777)".
std::string describe_foreign(int descriptor);

struct FolderEntry {
  std::string folder{};  // XX
  std::string name{};
  Bytes size{};
  int64_t time = 0;  // nanoseconds, of the file system's own clock
};
struct FolderContent {
  std::vector<FolderEntry> entries{};
  std::vector<FolderEntry> temporary{};  // what writes make, or were killed while making
  Bytes size{};                          // of the entries
};
FolderContent list_content(int folder);
// Whether this call removed it.
bool remove_in(int folder, const FolderEntry& entry);

}  // namespace holdfast::kernel
