#include "holdfast/hal/pipeline.h"

#include <fmt/format.h>

namespace holdfast::hal {

std::string Pipeline::describe() const {
  return fmt::format("kernel '{}' (id {})", name(), id().value);
}

Failure check_limits(const PipelineDesc& desc) {
  if (desc.bindings <= kMaxBindings && desc.parameter_bytes <= kMaxParameterBytes) return {};
  return Failure(ErrorCode::usage,
                 fmt::format("kernel '{}' wants {} bindings and {} bytes of parameters; the limits "
                             "are {} and {}",
                             desc.name, desc.bindings, desc.parameter_bytes.value, kMaxBindings,
                             kMaxParameterBytes.value));
}

}  // namespace holdfast::hal
