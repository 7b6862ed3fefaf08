#pragma once

#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// C++ for clang, whose outcome becomes SPIR-V: see generate() and translate_to_spirv().
//
// The entry point takes a pointer for each binding, with Interface::binding_lengths the bytes of
// each, then a pointer to the parameter bytes of the Interface. With Interface::reports, checks
// that fail are written to the report (check_report.h), whose address hf_spirv_report() gives.
// Groups of the device are threadgroups, and their size is LaunchBlock::block. At an edge of the
// grid a group may have more threads than the grid; those return at once. With
// Cooperation::barriers no group may have such threads: Vulkan wants all threads of a group at a
// barrier. With GenerateOptions::subgroups, simdgroups are subgroups of the device, which have 32
// threads in the order of their index in the threadgroup; otherwise their operations go through
// threadgroup memory.
GeneratedKernel vulkan_text(const Definition& definition, const CallSignature& signature,
                            const GenerateOptions& options = {});

}  // namespace holdfast::kernel
