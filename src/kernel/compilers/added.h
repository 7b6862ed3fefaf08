#pragma once

#include <string>
#include <vector>

#include "holdfast/kernel/compilers.h"

namespace holdfast::kernel {

// What was added so far, in order.
std::vector<std::vector<std::string>> added_cpp_compilers();
std::vector<std::string> added_nvrtc_folders();

}  // namespace holdfast::kernel
