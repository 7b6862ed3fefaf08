#pragma once

#include <filesystem>
#include <string_view>

namespace holdfast::testing {

// A program of the same build, which lies beside the one that runs.
inline std::filesystem::path child_program(std::string_view name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace holdfast::testing
