#pragma once

#include "holdfast/kernel/targets/vulkan/ir/memory.h"
#include "holdfast/kernel/targets/vulkan/ir/structure.h"

namespace holdfast::kernel::ir {

// Calls that all threads of a group must come to together: barriers, and the two halves of an
// exchange of words (hf_spirv_publish, hf_spirv_conclude); where simdgroups are subgroups of the
// device, all that is done in them.
bool is_meeting(const Value& value);

// Where threads exchange words, vote in subgroups, or a check may end some of those that meet,
// leads all of them to every meeting, whatever way each takes: where flow is not the same for all,
// as far as can be known, choices are walked on both ways and loops as long as anybody stays, and
// who is not on that way takes no part. So an exchange knows which threads are there. Flow without
// exchanges and checks stays as it is.
void add_masks(const Function& function, const Memory& memory, Structure& structure);

}  // namespace holdfast::kernel::ir
