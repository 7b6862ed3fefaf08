#pragma once

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// C++ for the CPU: see generate().
GeneratedKernel cpu_text(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options = {});

}  // namespace holdfast::kernel
