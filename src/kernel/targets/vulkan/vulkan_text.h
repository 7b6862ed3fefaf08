#pragma once

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// C++ for clang, whose outcome becomes SPIR-V: see generate() and translate_to_spirv().
//
// The entry point takes a pointer for each binding, then one to the parameter bytes of the
// Interface. Groups of the device are threadgroups, and their size is LaunchBlock::block. At an
// edge of the grid a group may have more threads than the grid; those return at once. With
// Cooperation::barriers no group may have such threads: Vulkan wants all threads of a group at a
// barrier.
GeneratedKernel vulkan_text(const Definition& definition, const CallSignature& signature,
                            const GenerateOptions& options = {});

}  // namespace holdfast::kernel
