#pragma once

#include <string>

#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// The failure with the kernel's name in front.
Failure named(const CompileJob& job, const Failure& failure);
// What g++ or clang++ has against the text of the job, at the author's lines.
Failure compile_failure(const CompileJob& job, const std::string& messages);

}  // namespace holdfast::kernel
