#pragma once

#include "holdfast/base/ablation.h"
#include "holdfast/hal/command.h"

namespace holdfast::hal {

// Whether an ablation keeps this binding out of the Holds and the history.
inline bool is_left_unheld([[maybe_unused]] const Binding& binding) {
  if (!any_ablated()) return false;
  if (ablated(Ablation::bound_not_held)) return true;
  if (ablated(Ablation::donated_output_not_held) && binding.access == Access::read_write) {
    return true;
  }
  if (ablated(Ablation::scratch_not_held) && binding.allocation != nullptr &&
      binding.allocation->name() == "scratch") {
    return true;
  }
  return ablated(Ablation::temporaries_not_held) && binding.allocation != nullptr &&
         binding.allocation->buffer()->kind() != MemoryKind::device;
}

}  // namespace holdfast::hal
