#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/kernel/kernel.h"

namespace holdfast::kernel {

// How calls of a kernel are refused, wherever they come from.

// UsageError: "kernel 'scale', labelled 'layer 3': WHY". The label may be empty.
[[noreturn]] void refuse(const Kernel& kernel, std::string_view label, std::string_view why);

[[noreturn]] void refuse_count(const Kernel& kernel, std::string_view label, std::string_view what,
                               const std::vector<std::string>& names, size_t given);
// Refuses a call that gives another number of `what` ("input") than the kernel has names for.
inline void check_count(const Kernel& kernel, std::string_view label, std::string_view what,
                        const std::vector<std::string>& names, size_t given) {
  if (names.size() != given) refuse_count(kernel, label, what, names, given);
}

}  // namespace holdfast::kernel
