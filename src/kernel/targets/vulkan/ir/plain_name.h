#pragma once

#include <string>

namespace holdfast::kernel::ir {

// A function's name as its author wrote it: "f" of "_ZN11hf_language7hf_userL1fEj".
std::string plain_name(const std::string& name);

}  // namespace holdfast::kernel::ir
