#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "holdfast/hal/pipeline.h"
#include "holdfast/kernel/definition.h"

namespace holdfast::kernel {

// The threads of a group of a compute entry point: its LocalSize or LocalSizeId, or the constant
// that is the built-in WorkgroupSize, with the specialization constants given. None where the words
// do not say it plainly, or are no SPIR-V: whoever executes them finds out.
std::optional<Size3> spirv_group_size(std::span<const uint32_t> words, std::string_view entry_point,
                                      std::span<const hal::SpirvModule::Constant> constants);

}  // namespace holdfast::kernel
